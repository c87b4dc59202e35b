"""Fused rows of quantized embedding tables: the codes of a row, followed by its scale and bias, as bytes.

A code stands for the float ``scale * code + bias``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

from caffe2_torch.evaluation.op import Op
from caffe2_torch.functions.segments import decode_rows


@dataclass(frozen=True, slots=True)
class FusedRows:
    """A format of fused rows: the bits of a code, and the element type of scale and bias."""

    bits: int
    real: torch.dtype

    @property
    def tail(self) -> int:
        """The number of bytes of scale and bias."""
        return 2 * self.real.itemsize

    @property
    def per_byte(self) -> int:
        """The number of codes in a byte; the first is in its lowest bits."""
        return 8 // self.bits


def decode(op: Op, x: torch.Tensor, rows: FusedRows, weights: torch.Tensor | None = None) -> torch.Tensor:
    """Dequantize fused rows, bytes [..., C], to floats; ``weights`` [N] multiply scale and bias, as in Caffe2."""
    if x.shape[-1] < rows.tail:
        op.refuse(f"rows must have the {rows.tail} bytes of scale and bias, not {x.shape[-1]}")
    return decode_rows(x, rows.bits, rows.real, weights)


def encode(codes: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor, rows: FusedRows) -> torch.Tensor:
    """Pack codes [..., C], with scale and bias [..., 1], into fused rows."""
    tail = torch.cat([scale, bias], dim=-1).to(rows.real).contiguous().view(torch.uint8)
    whole = codes.to(torch.int32)
    if rows.per_byte > 1:
        whole = functional.pad(whole, (0, -whole.shape[-1] % rows.per_byte))
        shifts = torch.arange(0, 8, rows.bits, dtype=torch.int32, device=codes.device)
        whole = (whole.unflatten(-1, (whole.shape[-1] // rows.per_byte, rows.per_byte)) << shifts).sum(-1)
    return torch.cat([whole.to(torch.uint8), tail], dim=-1)

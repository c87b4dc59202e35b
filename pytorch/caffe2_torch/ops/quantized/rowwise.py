"""Row-wise quantization: floats to codes of 2, 4 or 8 bits with a scale and a bias per row, and back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import torch

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.fused_rows import FusedRows, decode, encode
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value
from caffe2_torch.functions.segments import dequantize_rows
from caffe2_torch.ops.sequence.segment_reduction import take_rows

family = Family("rowwise")

_FLOAT, _HALF = torch.float32, torch.float16
EIGHT_BITS: Final = FusedRows(8, _FLOAT)
# The greedy search divides a range into steps, and gives up one per iteration until so many are left.
_STEPS: Final = 200
_STEPS_LEFT: Final = 168


@dataclass(frozen=True, slots=True)
class Conversion:
    """The floats, the fused rows, and the bits of codes, which "fake" operators store in whole bytes."""

    floats: torch.dtype
    rows: FusedRows
    code_bits: int


def _conversions() -> tuple[dict[str, Conversion], dict[str, Conversion]]:
    """Return the conversions to fused rows, and those from them, by operator type."""
    to_rows, to_floats = {}, {}
    for name, floats in (("Float", _FLOAT), ("HalfFloat", _HALF)):
        for suffix, real in (("", _FLOAT), ("HalfScaleBias", _HALF)):
            conversion = Conversion(floats, FusedRows(8, real), 8)
            to_rows[f"{name}ToFused8BitRowwiseQuantized{suffix}"] = conversion
            # Real Caffe2 outputs float32 also for Fused8BitRowwiseQuantizedHalfScaleBiasToHalfFloat.
            decoding = conversion if real == _FLOAT else replace(conversion, floats=_FLOAT)
            to_floats[f"Fused8BitRowwiseQuantized{suffix}To{name}"] = decoding
    for name, floats in (("Float", _FLOAT), ("Half", _HALF)):
        for bits in (2, 4):
            conversion = Conversion(floats, FusedRows(bits, _HALF), bits)
            to_rows[f"{name}ToFused{bits}BitRowwiseQuantized"] = conversion
            to_floats[f"Fused{bits}BitRowwiseQuantizedTo{name}"] = conversion
            to_rows[f"{name}ToFused{bits}BitFakeRowwiseQuantized"] = Conversion(floats, EIGHT_BITS, bits)
    return to_rows, to_floats


TO_ROWS, TO_FLOATS = _conversions()


def _as_half(x: torch.Tensor) -> torch.Tensor:
    return x.to(_HALF).to(_FLOAT)


def _narrowed_range(
    x: torch.Tensor, low: torch.Tensor, high: torch.Tensor, largest: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the range that Caffe2's greedy search finds within [``low``, ``high``], both [..., 1].

    Each iteration shrinks the range by one step at the end where the loss is then lower. The result is the local
    minimum of the loss (below both of its successors) of the lowest loss.
    """
    step = (high - low) / float(_STEPS)
    shortest = step * float(_STEPS_LEFT)
    here = _loss(x, low, high, largest)
    best, best_low, best_high = here, low, high
    # One more iteration than steps to give up, as the steps are rounded.
    for _ in range(_STEPS - _STEPS_LEFT + 1):
        active = low + shortest < high
        raised, lowered = low + step, high - step
        loss_raised, loss_lowered = _loss(x, raised, high, largest), _loss(x, low, lowered, largest)
        improves = active & (here < loss_raised) & (here < loss_lowered) & (here < best)
        best, best_low, best_high = (
            torch.where(improves, a, b) for a, b in ((here, best), (low, best_low), (high, best_high))
        )
        raise_low = active & (loss_raised < loss_lowered)
        lower_high = active & ~raise_low
        low, high = torch.where(raise_low, raised, low), torch.where(lower_high, lowered, high)
        here = torch.where(raise_low, loss_raised, torch.where(lower_high, loss_lowered, here))
    return best_low, best_high


def _loss(x: torch.Tensor, low: torch.Tensor, high: torch.Tensor, largest: int) -> torch.Tensor:
    """Return the Euclidean distance between rows and their dequantized codes, [..., 1]."""
    low = _as_half(low)
    spread = high - low
    scale = torch.where(spread == 0, torch.ones_like(spread), _as_half(spread / float(largest)))
    codes = torch.round((x - low) * _inverse_of(scale)).clamp(0, largest)
    error = x - (codes * scale + low)
    return torch.sqrt((error * error).sum(-1, keepdim=True))


def _inverse_of(scale: torch.Tensor) -> torch.Tensor:
    """Return ``1 / scale``; 0 for a scale of 0, whose codes are all 0."""
    return torch.where(torch.isinf(1 / scale), torch.zeros_like(scale), 1 / scale)


@family.converts(*TO_ROWS)
def to_fused_rows(op: Op) -> Value:
    """Take the minimum of the row as bias, and its range divided by the largest code as scale."""
    conversion = TO_ROWS[op.type]
    rows, largest = conversion.rows, 2**conversion.code_bits - 1
    x = op.tensor(0)
    if x.dtype != conversion.floats or x.shape[-1] % rows.per_byte or x.shape[-1] == 0:
        op.refuse(f"the data must be {conversion.floats}, and the columns a multiple of {rows.per_byte}")
    x = x.to(_FLOAT)
    low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
    if conversion.code_bits == 8 and rows.real == _FLOAT:
        spread = high - low
        # A number over a tensor would be its product with the reciprocals, which rounds twice.
        scale, inverse = spread / 255.0, torch.full_like(spread, 255.0) / (spread + 1e-8)
    else:
        if "GREEDY" in op.view.engine and conversion.code_bits < 8:
            low, high = _narrowed_range(x, low, high, largest)
        low = _as_half(low)
        spread = high - low
        scale = torch.where(spread == 0, torch.ones_like(spread), _as_half(spread / largest))
        if conversion.code_bits == rows.bits:
            # A subnormal scale has no finite inverse.
            scale = torch.where(torch.isinf(1 / scale), torch.ones_like(scale), scale)
        inverse = _inverse_of(scale)
    codes = torch.round((x - low) * inverse).clamp(0, largest)
    return encode(codes, scale, low, rows)


@family.converts(*TO_FLOATS)
def to_floats(op: Op) -> Value:
    conversion = TO_FLOATS[op.type]
    return decode(op, op.tensor(0), conversion.rows).to(conversion.floats)


@family.converts("GatherFused8BitRowwise")
def gather_fused_rows(op: Op) -> Value:
    return decode(op, take_rows(op, op.tensor(0), op.tensor(1)), EIGHT_BITS)


@family.converts("FloatToRowwiseQuantized8Bits")
def to_codes(op: Op) -> tuple[Value, Value]:
    """Return codes 0 for rows whose range is below 1e-10; halves are rounded up."""
    x = op.tensor(0)
    flat = x.reshape(x.shape[0], -1)
    low, high = flat.amin(1, keepdim=True), flat.amax(1, keepdim=True)
    spread = high - low
    is_flat = spread < 1e-10
    scale = torch.where(is_flat, torch.ones_like(spread), spread / 255.0)
    position = (flat - low) * (1 / scale)
    codes = torch.floor(position) + (position - torch.floor(position) >= 0.5)
    codes = torch.where(is_flat, torch.zeros_like(codes), codes)
    return codes.to(torch.int32).to(torch.uint8).reshape(x.shape), torch.cat([scale, low], dim=1)


@family.converts("Rowwise8BitQuantizedToFloat")
def to_floats_of_codes(op: Op) -> Value:
    return dequantize_rows(op.tensor(0), op.tensor(1))

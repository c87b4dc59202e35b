"""Functions that the source of a module holds if it needs them: each is copied, and may use torch alone."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - as the source has it


def lstm_unit(
    hidden: torch.Tensor, cell: torch.Tensor, gates: torch.Tensor, lengths: torch.Tensor | None, step: int, *,
    forget_bias: float = 0.0, drop_states: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return the next hidden and cell state of an LSTM.

    The gates are in the order input, forget, output, cell. Rows that are over keep their states, or with drop_states
    get zeros; lengths may be None, where no row is over.
    """
    i, f, o, g = gates.chunk(4, dim=-1)
    new_cell = torch.sigmoid(f + forget_bias) * cell + torch.sigmoid(i) * torch.tanh(g)
    new_hidden = torch.sigmoid(o) * torch.tanh(new_cell)
    if lengths is None:
        return new_hidden, new_cell
    going = (lengths > step).reshape(-1, 1)
    if drop_states:
        return new_hidden * going, new_cell * going
    return torch.where(going, new_hidden, hidden), torch.where(going, new_cell, cell)


def gru_unit(
    hidden: torch.Tensor, gates: torch.Tensor, lengths: torch.Tensor | None, step: int, *,
    drop_states: bool = False,
) -> torch.Tensor:  # fmt: skip
    """Return the next hidden state of a GRU.

    The gates are in the order reset, update, output; the reset gate is already applied. Rows that are over keep their
    states, or with drop_states get zeros; lengths may be None, where no row is over.
    """
    _, update, output = gates.chunk(3, dim=-1)
    update = torch.sigmoid(update)
    new = hidden * update + torch.tanh(output) * (1 - update)
    if lengths is None:
        return new
    going = (lengths > step).reshape(-1, 1)
    return new * going if drop_states else torch.where(going, new, hidden)


def sequence_mask(x: torch.Tensor, lengths: torch.Tensor, axis: int, fill: float) -> torch.Tensor:
    """Fill the elements of each row beyond its length; dims from axis on are a row."""
    rows = x.flatten(axis) if axis < x.dim() else x.unsqueeze(-1)
    column = torch.arange(rows.shape[-1], device=x.device)
    outside = column >= lengths.reshape(*x.shape[:axis], 1)
    return torch.where(outside, torch.full_like(rows, fill), rows).reshape(x.shape)


def resize_nearest(x: torch.Tensor, height_scale: float, width_scale: float) -> torch.Tensor:
    """Repeat the nearest pixel of an image [N, C, H, W]."""
    rows = (torch.arange(int(x.shape[2] * height_scale), device=x.device) / height_scale).long()
    columns = (torch.arange(int(x.shape[3] * width_scale), device=x.device) / width_scale).long()
    return x[:, :, rows.clamp(max=x.shape[2] - 1)][:, :, :, columns.clamp(max=x.shape[3] - 1)]


def layer_norm(x: torch.Tensor, axis: int, epsilon: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Normalize over the dims from axis on; return the result, the means and the standard deviations."""
    dims = list(range(axis, x.dim()))
    mean, var = x.mean(dims, keepdim=True), x.var(dims, unbiased=False, keepdim=True)
    shape = (*x.shape[:axis], 1)
    return (x - mean) * torch.rsqrt(var + epsilon), mean.reshape(shape), torch.sqrt(var + epsilon).reshape(shape)


def average_pool(x: torch.Tensor, pads: list[int], kernel: tuple[int, int], stride: tuple[int, int]) -> torch.Tensor:
    """Average the pixels of each window of an image [N, C, H, W] that are not padding."""
    total = F.avg_pool2d(F.pad(x, pads), kernel, stride)
    return total / F.avg_pool2d(F.pad(torch.ones_like(x[:1, :1]), pads), kernel, stride)

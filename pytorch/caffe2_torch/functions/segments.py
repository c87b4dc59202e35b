"""Rows in segments: by lengths [S], or by the index of the segment of each row, its id."""

from __future__ import annotations

import torch


def starts(lengths: torch.Tensor) -> torch.Tensor:
    """Return the first row of each segment, [S]."""
    return lengths.cumsum(0) - lengths


def segment_ids(lengths: torch.Tensor) -> torch.Tensor:
    """Return the segment of each row, [N]."""
    return torch.repeat_interleave(torch.arange(lengths.shape[0], device=lengths.device), lengths)


def positions(lengths: torch.Tensor) -> torch.Tensor:
    """Return the index of each row within its segment, [N]."""
    ids = segment_ids(lengths)
    return torch.arange(ids.shape[0], device=lengths.device) - starts(lengths)[ids]


def range_rows(start: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
    """Return the rows of ranges, concatenated."""
    return start[segment_ids(length)] + positions(length)


def padded_rows(x: torch.Tensor, lengths: torch.Tensor, width: int, value: float = 0) -> torch.Tensor:
    """Return rows [N, ...] as [S, width, ...]: longer segments are cut, shorter ones padded with a value."""
    present, rows = grid(lengths, width)
    result = x.new_full((*present.shape, *x.shape[1:]), value)
    return result.masked_scatter(spread(present, result), x[rows[present]]) if x.shape[0] else result


def grid(lengths: torch.Tensor, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return where segments have rows, and which, both [S, width]."""
    column = torch.arange(width, device=lengths.device)
    return column < lengths.unsqueeze(1), starts(lengths).unsqueeze(1) + column


def spread(values: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Repeat values, [N], over the dims of x, [N, ...]."""
    return values.reshape(*values.shape, *[1] * (x.dim() - values.dim())).expand_as(x)


def segment_count(ids: torch.Tensor) -> int:
    """Return the number of segments up to the largest id."""
    return int(ids.max()) + 1 if ids.numel() else 0


def sum_rows(x: torch.Tensor, ids: torch.Tensor, count: int) -> torch.Tensor:
    """Sum rows [N, ...] by segment, to [count, ...]."""
    return x.new_zeros((count, *x.shape[1:])).index_add(0, ids, x)


def mean_rows(x: torch.Tensor, ids: torch.Tensor, count: int) -> torch.Tensor:
    """Average rows by segment; the mean of no rows is 0."""
    total = sum_rows(x, ids, count)
    return total / spread(torch.bincount(ids, minlength=count).clamp(min=1), total)


def max_rows(x: torch.Tensor, ids: torch.Tensor, count: int) -> torch.Tensor:
    """Take the maximum of rows by segment; of no rows the lowest number."""
    lowest = x.new_full((count, *x.shape[1:]), torch.finfo(x.dtype).min)
    return lowest.scatter_reduce(0, spread(ids, x), x, "amax")


def max_rows_or_zero(x: torch.Tensor, ids: torch.Tensor, count: int) -> torch.Tensor:
    """Take the maximum of rows by segment; of no rows 0."""
    zeros = x.new_zeros((count, *x.shape[1:]))
    return zeros.scatter_reduce(0, spread(ids, x), x, "amax", include_self=False)


def log_sum_exp_rows(x: torch.Tensor, ids: torch.Tensor, count: int) -> torch.Tensor:
    """Take the logarithm of the sum of the exponentials of rows by segment."""
    maximum = max_rows(x, ids, count)
    return torch.log(sum_rows(torch.exp(x - maximum[ids]), ids, count)) + maximum


def log_mean_exp_rows(x: torch.Tensor, ids: torch.Tensor, count: int) -> torch.Tensor:
    """Take the logarithm of the mean of the exponentials of rows by segment."""
    maximum = max_rows(x, ids, count)
    return torch.log(mean_rows(torch.exp(x - maximum[ids]), ids, count)) + maximum


def dequantize_rows(codes: torch.Tensor, scale_bias: torch.Tensor) -> torch.Tensor:
    """Dequantize codes [N, ...] by the scale and the bias of each row, [N, 2]."""
    return codes.float() * spread(scale_bias[:, 0], codes) + spread(scale_bias[:, 1], codes)


def decode_rows(x: torch.Tensor, bits: int, real: torch.dtype, weights: torch.Tensor | None = None) -> torch.Tensor:
    """Dequantize fused rows, bytes [..., C]: codes, the first in the lowest bits of a byte, then a scale and a bias.

    Weights [N] multiply scales and biases.
    """
    codes, tail = x.tensor_split([x.shape[-1] - 2 * real.itemsize], dim=-1)
    scale_bias = tail.clone(memory_format=torch.contiguous_format).view(real).float()
    if weights is not None:
        scale_bias = scale_bias * weights.reshape(-1, 1)
    if bits < 8:
        shifts = torch.arange(0, 8, bits, device=x.device)
        codes = ((codes.unsqueeze(-1).int() >> shifts) & (2**bits - 1)).flatten(-2)
    return codes.float() * scale_bias[..., :1] + scale_bias[..., 1:]


def split_lengths(lengths: torch.Tensor, count: int) -> torch.Tensor:
    """Split each length into so many parts that differ by at most 1, larger ones first."""
    lengths = lengths.long().unsqueeze(1)
    extra = torch.arange(count, device=lengths.device) < lengths % count
    return (lengths // count + extra).flatten()


def top_of_segments(x: torch.Tensor, lengths: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the k largest elements of each segment, [S, k], and their indices in it; 0 and -1 where there are less."""
    width = max(int(lengths.max()) if lengths.numel() else 0, k)
    padded = padded_rows(x.flatten(), lengths, width, float("-inf"))
    values, index = (v[:, :k] for v in torch.sort(padded, dim=1, descending=True, stable=True))
    found = index < lengths.unsqueeze(1)
    return values.masked_fill(~found, 0), index.masked_fill(~found, -1).int()


def scatter_segments(
    values: torch.Tensor, columns: torch.Tensor, lengths: torch.Tensor, width: int, default: float = 0.0
) -> torch.Tensor:
    """Put the values of each segment into the given columns of a row of so many columns, [S, width]."""
    dense = values.new_full((lengths.shape[0] * width,), default)
    return dense.index_copy(0, segment_ids(lengths) * width + columns, values).reshape(-1, width)

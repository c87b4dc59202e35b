"""Transforms of features: piecewise linear functions, percentiles, Box-Cox, and dequantization of bytes."""

from __future__ import annotations

import math

import torch

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.segments import lengths_of
from caffe2_torch.evaluation.values import Value
from caffe2_torch.functions.features import box_cox

family = Family("calibration")

_TABLES = ("bounds", "slopes", "intercepts")


@family.converts("PiecewiseLinearTransform")
def piecewise_linear_transform(op: Op) -> Value:
    """Apply a function to each column, constant beyond its bounds; with ``binary`` there is one function."""
    op.args.ignore("pieces")
    x, binary = op.tensor(0), op.args.flag("binary", default=False)
    given = [op.args.numbers(name, default=()) for name in _TABLES]
    if any(given):
        bounds, slopes, intercepts = (torch.tensor(values, dtype=torch.float32) for values in given)
    else:
        bounds, slopes, intercepts = (op.tensor(i).reshape(-1) for i in (1, 2, 3))
    if not binary:
        return _piecewise(op, x, bounds, slopes, intercepts)
    if x.dim() == 1:
        return _piecewise(op, x.unsqueeze(1), bounds, slopes, intercepts).squeeze(1)
    last = _piecewise(op, x[:, -1:], bounds, slopes, intercepts)
    return last if x.shape[1] == 1 else torch.cat([1.0 - last, last], dim=1)


def _piecewise(
    op: Op, x: torch.Tensor, bounds: torch.Tensor, slopes: torch.Tensor, intercepts: torch.Tensor
) -> torch.Tensor:
    groups = x.shape[1]
    if slopes.numel() % groups or bounds.numel() != slopes.numel() + groups or slopes.shape != intercepts.shape:
        op.refuse("slopes and intercepts must have equally many elements, and bounds one more per function")
    columns = []
    tables = (table.reshape(groups, -1) for table in (bounds, slopes, intercepts))
    for column, bound, slope, intercept in zip(x.unbind(1), *tables, strict=True):
        if bool((bound[1:] < bound[:-1]).any()):
            op.refuse("the bounds of a function must be sorted in ascending order")
        piece = (torch.searchsorted(bound, column.contiguous()) - 1).clamp(0, slope.shape[0] - 1)
        columns.append(slope[piece] * column.clamp(bound[0], bound[-1]) + intercept[piece])
    return torch.stack(columns, dim=1)


@family.converts("Percentile")
def percentile(op: Op) -> Value:
    """Return 0 below the first value, 1 above the last one; interpolate between two."""
    x, columns = op.tensor(0), []
    for column, pairs in zip(x.unbind(1), torch.split(op.tensor(1), lengths_of(op, 2).tolist()), strict=True):
        values, percents = pairs[:, 0].contiguous(), pairs[:, 1]
        upper = torch.searchsorted(values, column.contiguous())
        index, lower = upper.clamp(max=values.shape[0] - 1), (upper - 1).clamp(min=0)
        fraction = (column - values[lower]) / (values[index] - values[lower])
        result = percents[lower] + fraction * (percents[index] - percents[lower])
        result = torch.where(upper == 0, torch.zeros_like(result), result)
        result = torch.where(values[index] == column, percents[index], result)
        columns.append(torch.where(upper == values.shape[0], torch.ones_like(result), result))
    return torch.stack(columns, dim=1)


@family.converts("BisectPercentile")
def bisect_percentile(op: Op) -> Value:
    """Interpolate between two raw values from the ``upper`` of one to the ``lower`` of the next."""
    names = ("percentile_raw", "percentile_mapping", "percentile_lower", "percentile_upper")
    lengths = list(op.args.integers("lengths", default=()))
    tables = [torch.tensor(op.args.numbers(name, default=()), dtype=torch.float32) for name in names]
    columns = []
    for column, raw, mapping, lower, upper in zip(
        op.tensor(0).unbind(1), *(torch.split(table, lengths) for table in tables), strict=True
    ):
        below = (torch.searchsorted(raw, column.contiguous(), right=True) - 1).clamp(min=0)
        above = (below + 1).clamp(max=raw.shape[0] - 1)
        fraction = (column - raw[below]) / (raw[above] - raw[below] + 1e-10)
        result = (1.0 - fraction) * upper[below] + fraction * lower[above]
        result = torch.where(raw[below] == column, mapping[below], result)
        result = torch.where(column > raw[-1], torch.ones_like(result), result)
        columns.append(torch.where(column < raw[0], torch.zeros_like(result), result))
    return torch.stack(columns, dim=1)


@family.converts("BatchBoxCox")
def batch_box_cox(op: Op) -> Value:
    op.args.ignore("naive", "min_block_size")
    return box_cox(*op.tensors)


@family.converts("ByteWeightDequant")
def byte_weight_dequant(op: Op) -> Value:
    low, high = op.args.number("min", default=-3.0), op.args.number("max", default=3.0)
    shape = op.args.integers("shape", default=())
    step = torch.tensor((high - low) / 255.0, dtype=torch.float32)
    return op.tensor(0).reshape(-1)[: math.prod(shape)].reshape(shape).to(torch.float32) * step + low

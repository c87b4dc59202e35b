"""Predicates and parts of strings."""

from __future__ import annotations

import numpy as np
import torch

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Strings, Value

family = Family("strings")

_ARGUMENTS = {"StringEquals": "text", "StringStartsWith": "prefix", "StringEndsWith": "suffix"}


@family.converts(*_ARGUMENTS)
def test(op: Op) -> Value:
    x, text = op.strings(0), op.args.text(_ARGUMENTS[op.type], default="")
    if op.type == "StringEquals":
        found = [item == text for item in x.ravel()]
    elif op.type == "StringStartsWith":
        found = [item.startswith(text) for item in x.ravel()]
    else:
        found = [item.endswith(text) for item in x.ravel()]
    return torch.tensor(found, dtype=torch.bool).reshape(x.shape)


@family.converts("StringPrefix", "StringSuffix")
def part(op: Op) -> Value:
    """Count lengths in bytes."""
    x, length = op.strings(0), op.args.integer("length", default=3)
    if any(not item.isascii() for item in x.ravel()) or length < 0:
        op.refuse("lengths of strings that are not ASCII count bytes, which is not supported")
    result: Strings = np.empty(x.size, object)
    result[:] = [
        (item[:length] if op.type == "StringPrefix" else item[max(len(item) - length, 0) :]) for item in x.ravel()
    ]
    return result.reshape(x.shape)


@family.converts("StringJoin")
def join(op: Op) -> Value:
    """Return the elements of each row as one string, each followed by the delimiter; with axis=1 of each column."""
    delimiter, axis = op.args.text("delimiter", default=","), op.args.integer("axis", default=0)
    value = op.values[0]
    if isinstance(value, torch.Tensor):
        if value.is_floating_point():
            op.refuse("floats are not joined: Caffe2 writes them in a form of its own")
        value = value.to(torch.int64).numpy().astype(str).astype(object)
    else:
        value = op.strings(0)
    if axis not in (0, 1) or value.ndim not in (1, 2) or axis >= value.ndim:
        op.refuse(f"X must have rank 1 with axis 0, or rank 2 with axis 0 or 1, not rank {value.ndim} with axis {axis}")
    rows = value.reshape(-1, 1) if value.ndim == 1 else (value.T if axis else value)
    result: Strings = np.empty(rows.shape[0], object)
    result[:] = ["".join(item + delimiter for item in row) for row in rows]
    return result

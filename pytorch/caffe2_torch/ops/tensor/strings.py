"""Predicates and parts of strings."""

from __future__ import annotations

import numpy as np
import torch

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Strings, Value

family = Family("strings")


@family.converts("StringEquals", "StringStartsWith", "StringEndsWith")
def test(op: Op) -> Value:
    x, text = op.strings(0), op.args.text("text", default="")
    if op.type == "StringEquals":
        found = [item == text for item in x.ravel()]
    elif op.type == "StringStartsWith":
        found = [item.startswith(text) for item in x.ravel()]
    else:
        found = [item.endswith(text) for item in x.ravel()]
    return torch.tensor(found, dtype=torch.bool).reshape(x.shape)


@family.converts("StringPrefix", "StringSuffix")
def part(op: Op) -> Value:
    """Lengths count bytes."""
    x, length = op.strings(0), op.args.integer("length", default=3)
    if any(not item.isascii() for item in x.ravel()) or length < 0:
        op.refuse("lengths of strings that are not ASCII count bytes, which is not supported")
    result: Strings = np.empty(x.size, object)
    result[:] = [
        (item[:length] if op.type == "StringPrefix" else item[max(len(item) - length, 0) :]) for item in x.ravel()
    ]
    return result.reshape(x.shape)

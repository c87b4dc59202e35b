"""Casts between element types."""

from __future__ import annotations

import numpy as np
import torch

from caffe2_bridge.netdef.data_type import data_type
from caffe2_bridge.proto.caffe2_pb2 import TensorProto
from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value

family = Family("cast")

_NARROW = (torch.uint8, torch.int8, torch.uint16, torch.int16)


@family.converts("Cast")
def cast_to(op: Op) -> Value:
    op.args.ignore("from_type")
    x, number = op.tensor(0), data_type(op.args, "to", default=TensorProto.FLOAT)
    halves = x.dtype == torch.float16 and op.context.real != torch.float16
    if halves or number in (TensorProto.FLOAT16, TensorProto.BYTE):
        op.refuse("Cast does not support float16 and BYTE")
    if number == TensorProto.STRING:
        if x.is_floating_point():
            op.refuse("a cast from float to string is not supported")
        texts = np.empty(x.numel(), object)
        texts[:] = [str(int(item)) for item in x.reshape(-1).tolist()]
        return texts.reshape(tuple(x.shape))
    to = op.dtype(number)
    return x.to(torch.int32).to(to) if x.is_floating_point() and to in _NARROW else x.to(to)


@family.converts("FloatToHalf")
def float_to_half(op: Op) -> Value:
    x = op.tensor(0)
    return (x.clamp(-65504.0, 65504.0) if op.args.flag("clip", default=False) else x).to(torch.float16)


@family.converts("HalfToFloat")
def half_to_float(op: Op) -> Value:
    return op.tensor(0).to(torch.float32)

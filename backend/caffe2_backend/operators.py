"""Caffe2 operators of plain Python values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from caffe2_bridge.proto.caffe2_pb2 import Argument, NetDef, OperatorDef


def make_operator(op_type: str, inputs: Sequence[str], outputs: Sequence[str], args: Mapping[str, Any]) -> OperatorDef:
    """An operator; arguments that are None are left out.

    The kind of an argument is that of its value: an empty list has none, which Caffe2 reads as any.
    """
    op = OperatorDef(type=op_type, input=inputs, output=outputs)
    op.arg.extend(_argument(name, value) for name, value in args.items() if value is not None)
    return op


def _argument(name: str, value: Any) -> Argument:
    argument = Argument(name=name)
    match value:
        case NetDef():
            argument.n.CopyFrom(value)
        case bool() | int() | np.integer():
            argument.i = int(value)
        case float() | np.floating():
            argument.f = float(value)
        case str():
            argument.s = value.encode()
        case [str(), *_]:
            argument.strings.extend(text.encode() for text in value)
        case [float(), *_]:
            argument.floats.extend(value)
        case _:
            argument.ints.extend(int(item) for item in value)
    return argument

"""Random inputs for nets, and tensors without memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.netdef.parameters import NUMBERS
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_compat.extension.values.blobs import text
from caffe2_compat.workspace.named_workspaces import current

__all__ = ["create_offline_tensor", "fill_random_network_inputs"]

_DTYPES: Final = {
    "float": np.float32,
    "double": np.float64,
    "int": np.int32,
    "int64_t": np.int64,
    "int8_t": np.int8,
    "int16_t": np.int16,
    "uint8_t": np.uint8,
    "uint16_t": np.uint16,
    "bool": np.bool_,
}
_BY_NUMBER: Final = {int(data_type): dtype for dtype, data_type in NUMBERS.items() if dtype.kind in "biuf"}
_generator: Final = np.random.default_rng(0)


def fill_random_network_inputs(
    net_def: bytes, input_dims: Sequence[Sequence[Sequence[int]]], input_types: Sequence[Sequence[str]]
) -> None:
    """Feed random values to the inputs of the first operator of a net, by their shapes and C++ types.

    Raises RunError if shapes or types do not fit the inputs.
    """
    net = NetDef.FromString(net_def)
    made: set[str] = set()
    operators = [op for op in net.op if any(name not in made for name in op.input)][: len(input_dims)]
    if len(input_dims) != len(input_types) or len(operators) != len(input_dims):
        raise RunError(f"{len(input_dims)} lists of shapes and {len(input_types)} of types do not fit the operators")
    for op, dims, types in zip(operators, input_dims, input_types, strict=True):
        if not len(op.input) == len(dims) == len(types):
            raise RunError(f"{op.type} has {len(op.input)} inputs, for {len(dims)} shapes and {len(types)} types")
        for name, shape, kind in zip(op.input, dims, types, strict=True):
            if kind not in _DTYPES:
                raise RunError(f"type {kind!r} of input {name!r} must be one of {', '.join(_DTYPES)}")
            if name not in made:
                current().feed(name, _random(list(shape), np.dtype(_DTYPES[kind])))
        made.update(op.output)


def _random(shape: list[int], dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "f":
        return _generator.random(shape).astype(dtype)
    return _generator.integers(0, 2, shape).astype(dtype)


def create_offline_tensor(name: Any, shape: Sequence[int], data_type: int) -> bool:
    """Set a blob to a tensor of a shape and TensorProto.DataType; its memory is reserved.

    Raises RunError for data types of which tensors cannot be made.
    """
    if data_type not in _BY_NUMBER:
        raise RunError(f"tensors of data type {data_type} cannot be made")
    current().feed(text(name), np.zeros(list(shape), _BY_NUMBER[data_type]))
    return True

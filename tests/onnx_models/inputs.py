"""Generated inputs of a model: of the shapes that it declares, at sizes of its open dims at which it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import onnx

Feed = Mapping[str, Any]
# What open dims are tried at: the first of a rank, which is a batch as a rule, and the others.
_SIZES: Final = ((2, 5), (1, 16), (1, 32), (1, 64), (1, 224), (1, 512), (1, 1), (2, 2))
_WHOLE: Final[dict[int, type[Any]]] = {
    onnx.TensorProto.INT32: np.int32, onnx.TensorProto.INT64: np.int64, onnx.TensorProto.INT8: np.int8,
    onnx.TensorProto.UINT8: np.uint8, onnx.TensorProto.INT16: np.int16, onnx.TensorProto.UINT16: np.uint16,
    onnx.TensorProto.UINT32: np.uint32, onnx.TensorProto.UINT64: np.uint64,
}  # fmt: skip
_REAL: Final[dict[int, type[Any]]] = {
    onnx.TensorProto.FLOAT: np.float32, onnx.TensorProto.DOUBLE: np.float64, onnx.TensorProto.FLOAT16: np.float16,
}  # fmt: skip


class NoInputsError(ValueError):
    """An input is not a tensor of numbers, or no size of the open dims suits the model."""


def feeds(model: onnx.ModelProto) -> Iterator[Feed]:
    """Yield inputs at sizes to try, one after the other; one only where no dim is open. Raises NoInputsError."""
    constants = {tensor.name for tensor in model.graph.initializer}
    infos = [info for info in model.graph.input if info.name not in constants]
    open_dims = any(dim.WhichOneof("value") != "dim_value" for info in infos for dim in _dims(info))
    for first, other in _SIZES if open_dims else _SIZES[:1]:
        random = np.random.default_rng(0)
        sizes: dict[str, int] = {}
        yield {info.name: _value(info, _shape(info, first, other, sizes), random) for info in infos}


def _dims(info: onnx.ValueInfoProto) -> Any:
    return info.type.tensor_type.shape.dim


def _shape(info: onnx.ValueInfoProto, first: int, other: int, sizes: dict[str, int]) -> list[int]:
    """Return the dims of an input: open ones of one name have one size, that of a batch where the name says so."""
    shape = []
    for axis, dim in enumerate(_dims(info)):
        if dim.WhichOneof("value") == "dim_value" and dim.dim_value >= 0:
            shape.append(dim.dim_value)
            continue
        is_batch = dim.dim_param.lower() in ("n", "b") or "batch" in dim.dim_param.lower()
        size = first if is_batch or not (axis or dim.dim_param) else sizes.get(dim.dim_param, other if axis else first)
        if dim.dim_param:
            sizes.setdefault(dim.dim_param, size)
        shape.append(size)
    return shape


def _value(info: onnx.ValueInfoProto, shape: list[int], random: np.random.Generator) -> Any:
    kind = info.type.tensor_type.elem_type
    if info.type.WhichOneof("value") != "tensor_type":
        raise NoInputsError(f"input {info.name!r} is not a tensor")
    if kind in _REAL:
        return random.normal(size=shape).astype(_REAL[kind])
    if kind in _WHOLE:
        return random.integers(0, 2, shape).astype(_WHOLE[kind])
    if kind == onnx.TensorProto.BOOL:
        return random.integers(0, 2, shape).astype(bool)
    raise NoInputsError(f"input {info.name!r} has no numbers")

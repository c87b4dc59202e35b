"""What a caller knows of an ONNX model's inputs, written into the model: element types, shapes, and sizes of dims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import onnx
import onnx_ir as ir

from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.diagnostics.nearest import nearest_first
from caffe2_frontend.interop.input_hint import inputs_hint
from caffe2_frontend.interop.types import Dim, TensorInfo

# Sizes of open dims in examples: of a batch, or of an image [N,C,H,W].
_EXAMPLE: Final = 1
_EXAMPLE_IMAGE: Final = (1, 3, 224, 224)


def describe_inputs(
    inputs: Sequence[ir.Value], others: Iterable[ir.Value], described: Mapping[str, TensorInfo]
) -> None:
    """Write descriptions into the inputs of a graph, in place.

    A symbolic dim that gets a size, or another name, gets it everywhere:

        x: float[N,512], z: float[N,3]   with x=[1,512]   =>   x: float[1,512], z: float[1,3]

    Args:
        inputs: the graph's inputs that are not parameters.
        others: other values, whose symbolic dims are replaced as well.
        described: by the name of the input; what is left open stays as the model declares it.

    Raises:
        OptionError: the graph has no input of that name, or declares another element type, rank or size.
    """
    declared = {str(value.name): value for value in inputs}
    sizes: dict[str, Dim] = {}
    for name, info in described.items():
        if name not in declared:
            raise OptionError(_unknown(name, tuple(declared)))
        _describe(declared[name], info, sizes)
    for value in (*inputs, *others):
        if sizes and value.shape is not None:
            value.shape = ir.Shape(_replaced(dim, sizes) for dim in value.shape)


def describe_proto(model: onnx.ModelProto, described: Mapping[str, TensorInfo]) -> onnx.ModelProto:
    """Return a model with descriptions of its inputs, not changing the given one. Raises as :func:`describe_inputs`."""
    if not described:
        return model
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [ir.serde.deserialize_value_info_proto(info, None) for info in model.graph.input]
    outputs = [ir.serde.deserialize_value_info_proto(info, None) for info in model.graph.output]
    describe_inputs([value for value in inputs if value.name not in weights], outputs, described)
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    for infos, values in ((whole.graph.input, inputs), (whole.graph.output, outputs)):
        for info, value in zip(infos, values, strict=True):
            info.CopyFrom(ir.serde.serialize_value(value))
    return whole


def sizes_hint(inputs: Iterable[ir.Value]) -> str:
    """Return what to type to fix the sizes of a graph's inputs; empty if no tensor among them has open dims."""
    examples = {str(value.name): _example(value) for value in inputs if _is_open(value)}
    if not examples:
        return ""
    return f"fix the sizes, such as {inputs_hint(examples)}"


def _describe(value: ir.Value, info: TensorInfo, sizes: dict[str, Dim]) -> None:
    """Write a description into an input, and note which symbolic dims become what."""
    name = value.name
    if info.quantization is not None:
        raise OptionError(f"input {name!r} has no scale and zero point: only Int8 tensors of Caffe2 do")
    if info.dtype not in (None, value.dtype):
        if value.dtype is not None:
            raise OptionError(f"input {name!r} is {_dtype(value.dtype)}, not {_dtype(info.dtype)}")
        value.dtype = info.dtype
    if info.shape is None:
        return
    declared: list[int | ir.SymbolicDim | None] = [None] * len(info.shape) if value.shape is None else [*value.shape]
    if len(declared) != len(info.shape):
        raise OptionError(f"input {name!r} has {len(declared)} dims, not {len(info.shape)}: it is {value.shape}")
    dims: list[Dim] = []
    for axis, (known, given) in enumerate(zip(map(_plain, declared), info.shape, strict=True)):
        before = sizes.get(known, known) if isinstance(known, str) else known
        if given is not None and isinstance(before, int) and given != before:
            raise OptionError(f"dim {axis} of input {name!r} is {before}, not {given}")
        if given is not None and isinstance(known, str):
            sizes[known] = given
        dims.append(before if given is None else given)
    value.shape = ir.Shape(dims)


def _replaced(dim: int | ir.SymbolicDim, sizes: Mapping[str, Dim]) -> Dim:
    known = _plain(dim)
    return sizes.get(known, known) if isinstance(known, str) else known


def _plain(dim: int | ir.SymbolicDim | None) -> Dim:
    return dim.value if isinstance(dim, ir.SymbolicDim) else dim


def _unknown(name: str, names: Sequence[str]) -> str:
    """Return why an input cannot be described, with the inputs that exist, the nearest first."""
    return f"the model has no input {name!r}: its inputs are {', '.join(map(repr, nearest_first(names, [name])))}"


def _is_open(value: ir.Value) -> bool:
    return isinstance(value.type, ir.TensorType) and value.shape is not None and not value.shape.is_static()


def _example(value: ir.Value) -> TensorInfo:
    assert value.shape is not None
    usual = _EXAMPLE_IMAGE if len(value.shape) == len(_EXAMPLE_IMAGE) else (_EXAMPLE,) * len(value.shape)
    dims = [dim if isinstance(dim, int) else size for dim, size in zip(value.shape, usual, strict=True)]
    return TensorInfo(value.dtype, tuple(dims))


def _dtype(dtype: ir.DataType) -> str:
    """Return the name of an element type as users write it."""
    return "string" if dtype == ir.DataType.STRING else dtype.numpy().name

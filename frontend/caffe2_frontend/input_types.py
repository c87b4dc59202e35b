"""Element types of a net's inputs, inferred from the operators that relate them to blobs of a known type.

Operators relate the types of their operands and results: a LT compares numbers of one type, and what an ArgMax writes
is int64. Blobs of one type form a group, which has the type of any of them that is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

import onnx_ir as ir

from caffe2_bridge.netdef.views import ArgumentError, OpView
from caffe2_bridge.proto.caffe2_pb2 import TensorProto
from caffe2_frontend.interop.classes import Classes
from caffe2_frontend.interop.types import CAFFE2_TO_ONNX

# All operands and results have one type.
_ALIKE: Final = frozenset({
    "Abs", "Add", "Alias", "AliasWithName", "Copy", "CopyCPUToGPU", "CopyFromCPUInput", "CopyGPUToCPU", "Div",
    "EnsureCPUOutput", "Max", "Min", "Mul", "Negative", "StopGradient", "Sub", "Sum",
})  # fmt: skip
# All operands have one type.
_COMPARISONS: Final = frozenset({"EQ", "GE", "GT", "LE", "LT", "NE"})
# An index has the type of its keys.
_KEYED: Final = frozenset({"IndexGet", "IndexLoad"})
# The operands, and the first result.
_JOINED: Final = frozenset({"Concat", "DepthConcat"})
# The first operand and the first result.
_MOVED: Final = frozenset({
    "BatchGather", "ExpandDims", "Flatten", "FlattenToVec", "Gather", "Reshape", "Slice", "Squeeze", "Tile",
    "Transpose",
})  # fmt: skip
# Results whose type follows from the operator alone.
_RESULTS: Final[Mapping[str, ir.DataType]] = {
    **dict.fromkeys(
        ("ArgMax", "ArgMin", "GivenTensorInt64Fill", "LongIndexCreate", "Shape", "Size"), ir.DataType.INT64
    ),
    **dict.fromkeys(("GivenTensorIntFill", "IntIndexCreate", "LengthsRangeFill", "UniformIntFill"), ir.DataType.INT32),
    **dict.fromkeys(("GivenTensorStringFill", "StringIndexCreate"), ir.DataType.STRING),
    **dict.fromkeys((*_COMPARISONS, "And", "GivenTensorBoolFill", "Not", "Or", "Xor"), ir.DataType.BOOL),
    **dict.fromkeys(("GivenTensorFill", "UniformFill", "GaussianFill"), ir.DataType.FLOAT),
}
# Those that follow from an argument, and the type without it.
_CHOSEN: Final[Mapping[str, tuple[str, int | None]]] = {
    "Cast": ("to", None),
    "ConstantFill": ("dtype", TensorProto.FLOAT),
}


def infer_input_types(
    ops: Sequence[OpView], inputs: Sequence[str], known: Mapping[str, ir.DataType]
) -> dict[str, ir.DataType]:
    """Infer the element types of inputs; those that no operator tells, or of which operators differ, are missing.

    Args:
        ops: the operators of the net and of its bodies, which see the net's blobs under the same names, and those of
            its init net that are not fills.
        inputs: the inputs.
        known: the types of parameters, and of inputs that are described.
    """
    groups = Classes()
    plain = [op for op in ops if not op.proto.domain]
    for op in plain:
        first, *others = [name for name in _alike(op) if name] or [""]  # operands that are left out have no name
        for name in others:
            groups.unite(first, name)
    types: dict[str, set[ir.DataType]] = {}
    for name, dtype in (*known.items(), *(found for op in plain for found in _told(op))):
        types.setdefault(groups.root(name), set()).add(dtype)
    found = {name: types.get(groups.root(name), set()) for name in inputs}
    return {name: next(iter(told)) for name, told in found.items() if len(told) == 1}


def _alike(op: OpView) -> tuple[str, ...]:
    """Return the blobs of an operator that have one type."""
    if op.type in _ALIKE:
        return (*op.inputs, *op.outputs)
    if op.type in _COMPARISONS or op.type in _KEYED:
        return op.inputs
    if op.type in _JOINED:
        return (*op.inputs, *op.outputs[:1])
    if op.type == "Split":  # the second operand holds sizes
        return (*op.inputs[:1], *op.outputs)
    return (*op.inputs[:1], *op.outputs[:1]) if op.type in _MOVED else ()


def _told(op: OpView) -> Iterator[tuple[str, ir.DataType]]:
    """Yield the results of an operator of a known type."""
    dtype = _RESULTS.get(op.type)
    if op.type in _CHOSEN:
        name, default = _CHOSEN[op.type]
        with suppress(ArgumentError):  # reported when the operator is converted
            chosen = op.args.integer(name) if default is None else op.args.integer(name, default=default)
            dtype = CAFFE2_TO_ONNX.get(chosen)
    if dtype is not None and op.outputs:
        yield op.outputs[0], dtype

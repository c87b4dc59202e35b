"""Emission of Caffe2 operators, and of the constants that they read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal, overload

import numpy as np
import onnx_ir as ir

from caffe2_backend.lowering.types import CAFFE2_TYPES, STORED_AS, STRING, UNSIGNED, WIDER
from caffe2_backend.lowering.value import Array, Value
from caffe2_bridge.diagnostics import BuildError
from caffe2_bridge.netdef.construct import make_operator
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef
from caffe2_frontend.interop.names import Names
from caffe2_frontend.interop.operator_base import UnsupportedError
from caffe2_frontend.interop.types import BOOL, FLOAT, FLOAT16, INT32, INT64

# What the user can do about an operator that Caffe2 does not have in this form.
CARRY_HINT: Final = (
    "carry it as an ONNX operator, which only this project's runtime runs: --foreign carry, or foreign='carry'"
)
# The element types of the outputs where they are not that of the first input.
_OUTPUT_TYPES: Final[dict[str, tuple[ir.DataType | None, ...]]] = {
    **dict.fromkeys(("EQ", "GE", "GT", "LE", "LT"), (BOOL,)),
    **dict.fromkeys(("ArgMax", "ArgMin", "Shape", "Size"), (INT64,)),
    "BooleanMask": (None, INT64),
    "Concat": (None, INT32),
    "Dropout": (None, BOOL),
    "FloatToHalf": (FLOAT16,),
    **dict.fromkeys(("GaussianFill", "HalfToFloat", "UniformFill"), (FLOAT,)),
    "Reshape": (None, INT64),
    "TopK": (None, INT64),
}
# Operators that move elements and compute nothing with them: those that take types which are stored as their bits.
_MOVES: Final = frozenset({
    "BooleanMask", "Concat", "ConstantFill", "Copy", "Expand", "ExpandDims", "Flatten", "Gather", "MergeDim", "Reshape",
    "ResizeLike", "ScatterAssign", "Shape", "Size", "Slice", "Split", "Squeeze", "Tile", "Transpose", "Where",
})  # fmt: skip
# Operators of elements of any type that real Caffe2 does not have for strings.
_NOT_OF_STRINGS: Final = frozenset({"Cast", "ScatterAssign", "Transpose"})
# Operators whose output has the shape of the input.
_KEEP_SHAPE: Final = frozenset({
    "Abs", "Cast", "Copy", "Floor", "FloatToHalf", "HalfToFloat", "Log", "Negative", "Not", "Sqr", "Sqrt",
})  # fmt: skip


@dataclass
class Emitted:
    """What one converter has emitted so far: operators, constants by name, and operands that were widened, by index."""

    ops: list[OperatorDef] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    widened: dict[int, Value] = field(default_factory=dict)


class Emitter:
    """Emits operators into the net of a node, or into a body of it; names of blobs start with ``owner``.

    Constants of types that Caffe2 has no tensors of are stored as their bits, where ``stores_bits``, or refused.
    """

    def __init__(self, names: Names, owner: str, *, stores_bits: bool) -> None:
        self._names = names
        self._owner = owner
        self._stores_bits = stores_bits
        self.emitted = Emitted()

    @contextmanager
    def inside(self) -> Iterator[list[OperatorDef]]:
        """Emit into a body, as whose operators are given; constants belong to the net around it."""
        outer = self.emitted
        self.emitted = Emitted(constants=outer.constants)
        try:
            yield self.emitted.ops
        finally:
            self.emitted = outer

    def fresh(self, what: str) -> str:
        """Return a name that no other blob has."""
        return self._names.fresh(f"{self._owner}/{what}")

    def blob(self, name: str, dtype: ir.DataType, shape: ir.Shape | None = None) -> Value:
        """Return the value of a blob that exists already, such as a formal input of a body."""
        return Value(self, name=name, dtype=dtype, shape=shape)

    def const(self, array: Any, dtype: ir.DataType | None = None) -> Value:
        """Return a constant; numbers that the type, or int64, does not hold refuse the node."""
        if dtype == ir.DataType.UNDEFINED:
            raise UnsupportedError("an operand is not a tensor of a known element type", code="needs-shape")
        kind = None if dtype is None else dtype.numpy()
        try:
            made = np.asarray(array, kind)
        except (OverflowError, ValueError):  # too large; an infinity or a NaN as an integer
            made = np.zeros(0, object)
        if made.dtype == object and (kind != np.dtype(object) or not _are_texts(made)):
            name = "int64" if dtype is None else dtype.name.lower()
            raise UnsupportedError(f"elements of type {name} do not hold {array}", code="invalid-operands")
        return Value(self, array=made, dtype=ir.DataType.from_numpy(made.dtype) if dtype is None else dtype)

    def constant_blob(self, array: Array) -> str:
        """Return the name of a new blob that holds a constant; refuses the node where no blob can."""
        dtype = STRING if array.dtype == object else ir.DataType.from_numpy(array.dtype)
        if dtype in STORED_AS and self._stores_bits:
            array = array.view(STORED_AS[dtype].numpy())
        elif dtype not in CAFFE2_TYPES:
            raise UnsupportedError(f"Caffe2 has no tensors of {dtype.name.lower()}", CARRY_HINT, "dtype")
        name = self.fresh("const")
        self.emitted.constants[name] = array
        return name

    @overload
    def emit(self, op_type: str, *inputs: Value, outputs: Literal[1] = 1, **args: Any) -> Value: ...
    @overload
    def emit(self, op_type: str, *inputs: Value, outputs: int, **args: Any) -> tuple[Value, ...]: ...
    def emit(self, op_type: str, *inputs: Value, outputs: int = 1, **args: Any) -> Value | tuple[Value, ...]:
        """Emit a Caffe2 operator and return its output, or its outputs where ``outputs`` is not 1.

        Arguments that are None are left out; an element type is written as Caffe2's number of it. Refuses the node
        where an operand or an element type is one that Caffe2 lacks, unless the operator only moves elements.
        """
        _check_types(op_type, inputs, args)
        dtypes = _output_types(op_type, inputs, args)
        names = [value.name for value in inputs]
        made = tuple(self.fresh(op_type) for _ in range(outputs))
        plain = {name: _number_of(arg) if isinstance(arg, ir.DataType) else arg for name, arg in args.items()}
        self.append(op_type, names, made, plain)
        shape = inputs[0].shape if op_type in _KEEP_SHAPE else None
        values = tuple(
            Value(self, name=name, dtype=dtypes[i] if i < len(dtypes) else dtypes[0], shape=shape)
            for i, name in enumerate(made)
        )
        return values[0] if outputs == 1 else values

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """Return a value in another shape; 0 keeps a dim and -1 is inferred from the number of elements."""
        return self.emit("Reshape", value, outputs=2, shape=list(shape))[0]

    def emit_in_place(self, op_type: str, target: Value, *inputs: Value) -> Value:
        """Emit an operator that overwrites its first input."""
        _check_types(op_type, (target, *inputs), {})
        self.append(op_type, [target.name, *(value.name for value in inputs)], [target.name], {})
        return target

    def append(self, op_type: str, inputs: Sequence[str], outputs: Sequence[str], args: dict[str, Any]) -> None:
        """Append an operator whose blobs have names already; refuses the node where an argument holds no such value."""
        try:
            self.emitted.ops.append(make_operator(op_type, inputs, outputs, args))
        except BuildError as error:
            raise UnsupportedError(str(error), code="invalid-argument") from None

    def widen(self, value: Value) -> Value:
        """Return a value in the wider type of its element type."""
        if value.dtype == FLOAT16:
            return self.emit("HalfToFloat", value)
        if value.dtype in UNSIGNED:
            word = self.blob(value.name, UNSIGNED[value.dtype], value.shape).cast(INT64)
            number = word + (word < 0).cast(INT64) * (1 << value.dtype.bitwidth)
            number.shape = value.shape
            return number
        return value.cast(WIDER[value.dtype])

    def narrow(self, value: Value, dtype: ir.DataType) -> Value:
        """Return a value that was widened, in its own element type again."""
        if dtype == FLOAT16:
            return self.emit("FloatToHalf", value)
        if dtype in UNSIGNED:  # the cast wraps around
            return self.blob(value.cast(UNSIGNED[dtype]).name, dtype, value.shape)
        return value.cast(dtype)


def _are_texts(array: Array) -> bool:
    return all(isinstance(text, bytes) for text in array.reshape(-1).tolist())


def _check_types(op_type: str, inputs: Sequence[Value], args: dict[str, Any]) -> None:
    """Refuse to compute with bits that stand for numbers of another type, or to make tensors of such a type."""
    if op_type in _NOT_OF_STRINGS and STRING in (inputs[0].dtype, args.get("to")):
        raise UnsupportedError(f"Caffe2 has no {op_type} of strings", CARRY_HINT, "dtype")
    operands = () if op_type in _MOVES else (value.dtype for value in inputs)
    for dtype in (*operands, *args.values()):
        if isinstance(dtype, ir.DataType) and dtype in STORED_AS:
            raise UnsupportedError(f"Caffe2 has no tensors of {dtype.name.lower()}", CARRY_HINT, "dtype")


def _number_of(dtype: ir.DataType) -> int:
    """Return Caffe2's number of an element type; refuses the node for one that Caffe2 lacks, or an unknown one."""
    if dtype not in CAFFE2_TYPES:
        raise UnsupportedError(f"Caffe2 has no tensors of element type {dtype.name.lower()}", code="dtype")
    return CAFFE2_TYPES[dtype]


def _output_types(op_type: str, inputs: Sequence[Value], args: dict[str, Any]) -> tuple[ir.DataType, ...]:
    for name in ("to", "dtype"):
        if isinstance(args.get(name), ir.DataType):
            return (args[name],)
    types = _OUTPUT_TYPES.get(op_type, (None,))
    return tuple(inputs[1 if op_type == "Where" else 0].dtype if dtype is None else dtype for dtype in types)

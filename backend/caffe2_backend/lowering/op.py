"""What a converter sees: one ONNX node, what is known of its operands, and the means to emit Caffe2 operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, overload

import numpy as np
import onnx_ir as ir

from caffe2_bridge.diagnostics import Location
from caffe2_bridge.netdef.construct import make_operator
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef, TensorProto
from caffe2_frontend.interop.operator_base import UnsupportedError

if TYPE_CHECKING:
    from caffe2_backend.lowering.lower import Lowering

Outputs = str | tuple[str, ...]
Array = np.ndarray[Any, Any]

# Element types of tensors that Caffe2 has, by ONNX's.
CAFFE2_TYPES: Final = {
    ir.DataType.FLOAT: TensorProto.FLOAT,
    ir.DataType.INT32: TensorProto.INT32,
    ir.DataType.STRING: TensorProto.STRING,
    ir.DataType.BOOL: TensorProto.BOOL,
    ir.DataType.UINT8: TensorProto.UINT8,
    ir.DataType.INT8: TensorProto.INT8,
    ir.DataType.UINT16: TensorProto.UINT16,
    ir.DataType.INT16: TensorProto.INT16,
    ir.DataType.INT64: TensorProto.INT64,
    ir.DataType.FLOAT16: TensorProto.FLOAT16,
    ir.DataType.DOUBLE: TensorProto.DOUBLE,
}
FLOAT: Final = ir.DataType.FLOAT
DOUBLE: Final = ir.DataType.DOUBLE
INT32: Final = ir.DataType.INT32
INT64: Final = ir.DataType.INT64
BOOL: Final = ir.DataType.BOOL
FLOAT16: Final = ir.DataType.FLOAT16
# Types that Caffe2 hardly computes with, and the one that holds their numbers whole.
WIDER: Final = {
    FLOAT16: FLOAT,
    ir.DataType.INT8: INT32,
    ir.DataType.UINT8: INT32,
    ir.DataType.INT16: INT32,
    ir.DataType.UINT16: INT32,
}


class TooNarrowError(Exception):
    """A converter wants operands of a wider type: it is called again with an :class:`Op` that gives them."""

    def __init__(self, dtype: ir.DataType) -> None:
        super().__init__(dtype)
        self.dtype = dtype


@dataclass
class Emitted:
    """What one converter has made so far: operators, and constants by name."""

    ops: list[OperatorDef] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)


class Op:
    """One node under conversion.

    Operands and results are blobs, by name. Converters read attributes and emit operators; they change nothing.
    Operands of the types in ``widened`` are seen in the wider one (:data:`WIDER`), and so are the outputs.
    """

    def __init__(
        self,
        node: ir.Node,
        location: Location,
        lowering: Lowering,
        made: Emitted | None = None,
        widened: frozenset[ir.DataType] = frozenset(),
    ) -> None:
        self.node = node
        self.location = location
        self.lowering = lowering
        self.made = Emitted() if made is None else made
        self.widened = widened
        self.read: set[str] = set()
        self._wide: dict[int, str] = {}

    @property
    def type(self) -> str:
        """The ONNX operator type."""
        return self.node.op_type

    # Operands

    @property
    def input_count(self) -> int:
        """How many operands are listed."""
        return len(self.node.inputs)

    def has_input(self, index: int) -> bool:
        """Whether an optional operand is given."""
        return index < len(self.node.inputs) and self.node.inputs[index] is not None

    def value(self, index: int) -> ir.Value:
        """What is known of operand ``index``; a missing one is a finding."""
        value = self.node.inputs[index] if index < len(self.node.inputs) else None
        if value is None:
            self.unsupported(f"input {index} is missing", code="missing-input")
        return value

    def input(self, index: int) -> str:
        """The blob of operand ``index``; a missing one is a finding."""
        value = self.value(index)
        if value.dtype not in self.widened:
            return str(value.name)
        if index not in self._wide:
            self._wide[index] = self.widen(str(value.name), value.dtype)
        return self._wide[index]

    @property
    def inputs(self) -> tuple[str, ...]:
        """The blobs of all operands."""
        return tuple(self.input(i) for i in range(len(self.node.inputs)))

    def wants(self, index: int) -> bool:
        """Whether optional output ``index`` is listed, and read or given out."""
        return index < len(self.node.outputs) and bool(self.node.outputs[index].name)

    # What inference knows

    def dtype(self, index: int = 0) -> ir.DataType:
        """The element type of an operand."""
        return self._dtype(self.value(index))

    def output_dtype(self, index: int = 0) -> ir.DataType:
        """The element type of an output."""
        return self._dtype(self.node.outputs[index])

    def _dtype(self, value: ir.Value) -> ir.DataType:
        if value.dtype is None or not isinstance(value.type, ir.TensorType):
            self.unsupported(f"{value.name!r} is no tensor of a known element type", code="needs-shape")
        return WIDER[value.dtype] if value.dtype in self.widened else value.dtype

    def shape(self, index: int = 0) -> ir.Shape:
        """The dims of an operand, symbolic ones among them; an unknown rank is a finding."""
        value = self.value(index)
        if value.shape is None:
            self.unsupported(f"the rank of {value.name!r} is unknown", code="needs-shape")
        return value.shape

    def rank(self, index: int = 0) -> int:
        """The number of dims of an operand; an unknown one is a finding."""
        return len(self.shape(index))

    def dims(self, index: int = 0) -> tuple[int, ...] | None:
        """The dims of an operand where all are known, else None."""
        value = self.value(index)
        if value.shape is None or not value.shape.is_static():
            return None
        return tuple(value.shape.numpy())

    def dim(self, axis: int, index: int = 0) -> int | None:
        """A dim of an operand where it is known."""
        dim = self.shape(index)[axis]
        return dim if isinstance(dim, int) else None

    def known(self, index: int) -> Array | None:
        """The contents of an operand where they are known now, else None."""
        value = self.value(index)
        return None if value.const_value is None else value.const_value.numpy()

    def constant(self, index: int, what: str) -> Array:
        """The contents of an operand that Caffe2 takes as an argument; what is only known at run time is a finding."""
        known = self.known(index)
        if known is None:
            self.unsupported(
                f"{what} is computed at run time, and Caffe2 takes it as an argument", code="needs-constant"
            )
        return known

    def integers_of(self, index: int, what: str) -> list[int]:
        """The same as a list of integers."""
        return [int(value) for value in self.constant(index, what).reshape(-1)]

    def axis(self, axis: int, rank: int, what: str = "axis") -> int:
        """``axis`` counted from the front; one outside [-rank, rank) is a finding."""
        if not -rank <= axis < max(rank, 1):
            self.unsupported(f"{what} {axis} is out of range for rank {rank}", code="invalid-argument")
        return axis % rank if rank else 0

    def require(self, index: int, *dtypes: ir.DataType) -> None:
        """An operand of another element type is widened where that gives one of ``dtypes``, else it is a finding."""
        if self.dtype(index) not in dtypes:
            if WIDER.get(self.dtype(index)) in dtypes:
                raise TooNarrowError(self.dtype(index))
            known = ", ".join(dtype.name.lower() for dtype in dtypes)
            self.unsupported(
                f"input {index} is {self.dtype(index).name.lower()}; Caffe2 has it for {known}", code="dtype"
            )

    # Attributes

    def _attribute(self, name: str, kind: ir.AttributeType) -> Any:
        self.read.add(name)
        attr = self.node.attributes.get(name)
        if attr is None:
            return None
        if attr.type != kind:
            self.unsupported(f"attribute {name!r} must be {kind.name}, not {attr.type.name}", code="invalid-argument")
        return attr.value

    def has(self, name: str) -> bool:
        """Whether an attribute is given."""
        return name in self.node.attributes

    def integer(self, name: str, default: int) -> int:
        """An integer attribute."""
        value = self._attribute(name, ir.AttributeType.INT)
        return default if value is None else int(value)

    def number(self, name: str, default: float) -> float:
        """A float attribute."""
        value = self._attribute(name, ir.AttributeType.FLOAT)
        return default if value is None else float(value)

    def text(self, name: str, default: str) -> str:
        """A text attribute."""
        value = self._attribute(name, ir.AttributeType.STRING)
        return default if value is None else str(value)

    def integers(self, name: str) -> list[int] | None:
        """A list of integers, None where it is absent."""
        value = self._attribute(name, ir.AttributeType.INTS)
        return None if value is None else [int(item) for item in value]

    def numbers(self, name: str) -> list[float] | None:
        """A list of floats, None where it is absent."""
        value = self._attribute(name, ir.AttributeType.FLOATS)
        return None if value is None else [float(item) for item in value]

    def texts(self, name: str) -> list[str] | None:
        """A list of texts, None where it is absent."""
        value = self._attribute(name, ir.AttributeType.STRINGS)
        return None if value is None else [str(item) for item in value]

    def tensor(self, name: str) -> Array | None:
        """A tensor, None where it is absent."""
        value = self._attribute(name, ir.AttributeType.TENSOR)
        return None if value is None else value.numpy()

    def graph(self, name: str) -> ir.Graph:
        """A body; a missing one is a finding."""
        value = self._attribute(name, ir.AttributeType.GRAPH)
        if value is None:
            self.unsupported(f"body {name!r} is missing", code="invalid-argument")
        assert isinstance(value, ir.Graph)
        return value

    def ignore(self, *names: str) -> None:
        """Declare attributes that cannot change the result where they are ignored."""
        self.read.update(names)

    # Emission

    def inside(self) -> Op:
        """This node, emitting into a body; constants are put with those of the net around it."""
        return Op(self.node, self.location, self.lowering, Emitted(constants=self.made.constants), self.widened)

    def const(self, array: Any, dtype: Any = None) -> str:
        """A blob that holds a constant; ``dtype`` is a NumPy dtype or an ONNX type."""
        if isinstance(dtype, ir.DataType):
            dtype = dtype.numpy()
        name = self.fresh("const")
        self.made.constants[name] = np.asarray(array, dtype=dtype)
        return name

    def fresh(self, what: str) -> str:
        """A name that no other blob has."""
        owner = next((value.name for value in self.node.outputs if value.name), self.type)
        return self.lowering.names.fresh(f"{owner}/{what}")

    @overload
    def emit(self, op_type: str, *inputs: str, outputs: Literal[1] = 1, **args: Any) -> str: ...
    @overload
    def emit(self, op_type: str, *inputs: str, outputs: int, **args: Any) -> tuple[str, ...]: ...
    def emit(self, op_type: str, *inputs: str, outputs: int = 1, **args: Any) -> str | tuple[str, ...]:
        """Emit a Caffe2 operator and return its output, or its outputs where ``outputs`` is not 1.

        Arguments that are None are left out.
        """
        made = tuple(self.fresh(op_type) for _ in range(outputs))
        self.made.ops.append(make_operator(op_type, inputs, made, args))
        return made[0] if outputs == 1 else made

    def cast(self, blob: str, dtype: ir.DataType) -> str:
        """A blob in another element type."""
        return self.emit("Cast", blob, to=CAFFE2_TYPES[dtype])

    def widen(self, blob: str, dtype: ir.DataType) -> str:
        """A blob of ``dtype`` in the wider type."""
        return self.emit("HalfToFloat", blob) if dtype == FLOAT16 else self.cast(blob, WIDER[dtype])

    def outputs(self, blobs: Sequence[str]) -> tuple[str, ...]:
        """The blobs of the outputs, those of a type that was widened in their own again."""
        return tuple(self._narrowed(blob, i) for i, blob in enumerate(blobs))

    def _narrowed(self, blob: str, index: int) -> str:
        if not self.widened or not self.wants(index):
            return blob
        dtype = self.node.outputs[index].dtype
        if dtype is None:
            self.unsupported(f"the element type of output {index} is unknown", code="needs-shape")
        if dtype not in self.widened:
            return blob
        return self.emit("FloatToHalf", blob) if dtype == FLOAT16 else self.cast(blob, dtype)

    def reshape(self, blob: str, shape: Sequence[int]) -> str:
        """A blob in another shape; 0 keeps a dim and -1 is what is left."""
        return self.emit("Reshape", blob, outputs=2, shape=list(shape))[0]

    # Findings

    def unsupported(self, reason: str, hint: str = "", code: str = "unsupported") -> NoReturn:
        """Refuse the node."""
        raise UnsupportedError(reason, hint, code)

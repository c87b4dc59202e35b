"""What a converter sees: one ONNX node, what is known of its operands, and the means to emit Caffe2 operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import onnx_ir as ir

from caffe2_backend.lowering.attributes import Attributes
from caffe2_backend.lowering.context import LoweringContext
from caffe2_backend.lowering.emitter import CARRY_HINT, Emitter
from caffe2_backend.lowering.types import UNDEFINED, WIDER
from caffe2_backend.lowering.value import Array, Value
from caffe2_bridge.cached import cached_property
from caffe2_bridge.diagnostics import Location
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef
from caffe2_frontend.interop.operator_base import OperatorBase, RefusedBodyError
from caffe2_frontend.interop.types import INT64

Outputs = Value | tuple[Value | None, ...]


class TooNarrowError(Exception):
    """A converter needs operands of a wider type: it is called again with an :class:`Op` that widens them."""

    def __init__(self, dtype: ir.DataType) -> None:
        super().__init__(dtype)
        self.dtype = dtype


class Op(OperatorBase[Value], Emitter):
    """One node under conversion.

    Converters read operands and attributes and emit operators; they invent no names and change nothing. Operands of
    the types in ``widened`` are converted to the wider type (:data:`WIDER`), and outputs are converted back.
    """

    allows_scalar_axis: ClassVar[bool] = True
    shape_hint: ClassVar[str] = CARRY_HINT

    def __init__(
        self,
        node: ir.Node,
        location: Location,
        lowering: LoweringContext,
        widened: frozenset[ir.DataType] = frozenset(),
    ) -> None:
        OperatorBase.__init__(self, location, lowering)
        owner = next((v.name for v in node.outputs if v.name), node.op_type)
        Emitter.__init__(self, lowering.names, owner, stores_bits=not lowering.carries_nodes)
        self.node = node
        self.lowering = lowering
        self.widened = widened

    @property
    def type(self) -> str:
        """The ONNX operator type."""
        return self.node.op_type

    @cached_property
    def args(self) -> Attributes:
        """The node's attributes."""
        return Attributes(self.node.attributes)

    # Operands

    @property
    def input_count(self) -> int:
        """How many operands the node lists."""
        return len(self.node.inputs)

    def has_input(self, index: int) -> bool:
        """Whether an optional operand is given."""
        return index < len(self.node.inputs) and self.node.inputs[index] is not None

    def operand(self, index: int) -> ir.Value:
        """Return the ONNX value of operand ``index``, before any widening; refuses the node where it is missing."""
        count = len(self.node.inputs)
        value = self.node.inputs[index] if -count <= index < count else None
        if value is None:
            reason = f"input {index} is missing: the node lists {count}"
            self.unsupported(reason, code="missing-input")
        return value

    def input(self, index: int) -> Value:
        """Return operand ``index``, widened where that was asked for; refuses the node where it is missing."""
        operand = self.operand(index)
        known = operand.dtype if isinstance(operand.type, ir.TensorType) else None
        dtype = UNDEFINED if known is None else known
        value = Value(self, name=operand.name, dtype=dtype, shape=operand.shape, const_value=operand.const_value)
        if dtype not in self.widened:
            return value
        if index not in self.emitted.widened:
            wide = self.widen(value)
            wide.const_value = operand.const_value
            self.emitted.widened[index] = wide
        return self.emitted.widened[index]

    def optional(self, index: int) -> Value | None:
        """Return operand ``index``, or None where it is not given."""
        return self.input(index) if self.has_input(index) else None

    @property
    def inputs(self) -> tuple[Value, ...]:
        """All operands."""
        return tuple(self.input(i) for i in range(len(self.node.inputs)))

    @property
    def output_count(self) -> int:
        """How many outputs the node lists."""
        return len(self.node.outputs)

    def wants(self, index: int) -> bool:
        """Whether optional output ``index`` is listed and used."""
        if index >= len(self.node.outputs):
            return False
        output = self.node.outputs[index]
        return bool(output.name) and (output.is_graph_output() or bool(output.uses()))

    # What inference knows

    def dtype(self, value: Value) -> ir.DataType:
        """Return the element type of a value; refuses the node where it is unknown."""
        if value.dtype == UNDEFINED:
            self.needs_shape(f"{value.name!r} is not a tensor of a known element type")
        return value.dtype

    def output_dtype(self, index: int = 0) -> ir.DataType:
        """Return the element type of an output; refuses the node where it is unknown."""
        output = self.node.outputs[index]
        if output.dtype is None or not isinstance(output.type, ir.TensorType):
            self.needs_shape(f"{output.name!r} is not a tensor of a known element type")
        return WIDER[output.dtype] if output.dtype in self.widened else output.dtype

    def constant(self, value: Value, what: str) -> Array:
        """Return the contents of an operand that Caffe2 takes as an argument; refuses the node where unknown."""
        known = self.known(value)
        if known is None:
            self.unsupported(
                f"{what} is computed at run time, and Caffe2 takes it as an argument", CARRY_HINT, "needs-constant"
            )
        return known

    def known(self, value: Value) -> Array | None:
        """Return the contents of a value that is an array or an initializer, None for one computed at run time."""
        return value.array if value.array is not None else super().known(value)

    def known_list(self, value: Value) -> Array | None:
        """Return the contents of a list, or None as :meth:`known`; refuses the node where the operand has more dims."""
        known = self.known(value)
        if known is not None and known.ndim > 1:
            self.unsupported(f"an operand must be a list, not of rank {known.ndim}", code="invalid-operands")
        return None if known is None else known.reshape(-1)

    def known_number(self, value: Value) -> Any:
        """Return the only element of an operand, None as :meth:`known`; refuses the node if it has another number."""
        known = self.known(value)
        if known is not None and known.size != 1:
            self.unsupported(f"an operand must have one element, not {known.size}", code="invalid-operands")
        return None if known is None else known.item()

    def require(self, value: Value, *dtypes: ir.DataType) -> Value:
        """Return the value, which must be of one of ``dtypes``.

        Refuses the node where it is not; raises TooNarrowError where operands of a wider type are.
        """
        dtype = self.dtype(value)
        if dtype in dtypes:
            return value
        if WIDER.get(dtype) in dtypes:
            raise TooNarrowError(dtype)
        known = ", ".join(dtype.name.lower() for dtype in dtypes)
        reason = f"{value.name!r} is {dtype.name.lower()}, and Caffe2 computes {self.type} of {known} only"
        return self.unsupported(reason, CARRY_HINT, "dtype")

    # Outputs and bodies

    def narrow_outputs(self, values: Sequence[Value | None]) -> tuple[Value | None, ...]:
        """Return the outputs, in their own element types where operands were widened."""
        return tuple(self._narrowed(value, i) for i, value in enumerate(values))

    def _narrowed(self, value: Value | None, index: int) -> Value | None:
        if value is None or not self.widened or not self.wants(index):
            return value
        dtype = self.node.outputs[index].dtype
        if dtype is None:
            self.needs_shape(f"the element type of output {index} is unknown")
        return self.narrow(value, dtype) if dtype in self.widened else value

    def lower_body(self, graph: ir.Graph, name: str) -> list[OperatorDef]:
        """Return the operators of a body, which is attribute ``name``.

        Raises RefusedBodyError where it cannot be converted; its own diagnostics say why.
        """
        if self.lowering.carries_nodes:
            self.unsupported("a node with bodies is carried whole")
        values = (*graph.inputs, *graph.outputs)
        if any(isinstance(value.type, ir.SequenceType | ir.OptionalType) for value in values):
            self.needs_shape(f"an input or output of the body {name!r} is not a tensor")
        before = self.lowering.errors
        ops = self.lowering.graph(graph, self.location.enter(name))
        if self.lowering.errors > before:
            raise RefusedBodyError
        return ops


def index_type(op: Op, value: Value) -> Value:
    """Return an operand of integers as int64."""
    return value if op.dtype(value) == INT64 else value.cast(INT64)

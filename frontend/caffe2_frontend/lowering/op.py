"""What a converter sees: one Caffe2 operator, its operands as ONNX values, and the means to emit ONNX nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, overload

import numpy as np
import onnx
import onnx_ir as ir

from caffe2_bridge.bounds import MAX_RANK
from caffe2_bridge.cached import cached_property
from caffe2_bridge.diagnostics import Location
from caffe2_bridge.netdef.parameters import Array
from caffe2_bridge.netdef.views import Args, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend.interop.inference.node_inference import ShapeMismatchError
from caffe2_frontend.interop.inference.varying_ranks import has_varying_rank
from caffe2_frontend.interop.metadata.origin import node_metadata
from caffe2_frontend.interop.operator_base import OperatorBase, RefusedBodyError
from caffe2_frontend.lowering.context import LoweringContext
from caffe2_frontend.lowering.dim_facts import DimFacts
from caffe2_frontend.lowering.inference import infer_outputs
from caffe2_frontend.lowering.scope import Scope

Value = ir.Value
Outputs = Value | tuple[Value | None, ...]

_INTEGERS: Final = frozenset({ir.AttributeType.INT, ir.AttributeType.INTS})
_BOUND: Final = 1 << 63


class Op(OperatorBase[ir.Value]):
    """One operator under conversion.

    Converters read operands and arguments and emit nodes; they invent no names and change nothing.
    """

    shape_hint: ClassVar[str] = "describe the inputs with sizes"

    def __init__(self, view: OpView, scope: Scope, location: Location, lowering: LoweringContext) -> None:
        super().__init__(location, lowering)
        self.view = view
        self.scope = scope
        self.lowering = lowering

    @property
    def type(self) -> str:
        """The Caffe2 operator type."""
        return self.view.type

    @cached_property
    def location_text(self) -> str:
        """The location, as text."""
        return str(self.location)

    @property
    def args(self) -> Args:
        """The operator's arguments."""
        return self.view.args

    # Operands

    @property
    def inputs(self) -> tuple[Value, ...]:
        """All operands."""
        return tuple(self.input(i) for i in range(len(self.view.inputs)))

    def input(self, index: int) -> Value:
        """Return operand ``index``; a missing one is a finding."""
        if not -len(self.view.inputs) <= index < len(self.view.inputs):
            self.unsupported(
                f"input {index} is missing: the operator lists {len(self.view.inputs)}", code="missing-input"
            )
        name = self.view.inputs[index]
        value = self.scope.find(name)
        if value is None:
            self.unsupported(f"input {index} ({name!r}) is not a tensor that this operator can read", code="no-tensor")
        return value

    def has_input(self, index: int) -> bool:
        """Whether an optional operand is given."""
        return index < len(self.view.inputs)

    def optional(self, index: int) -> Value | None:
        """Return operand ``index``, or None where it is not given."""
        return self.input(index) if self.has_input(index) else None

    @property
    def output_count(self) -> int:
        """How many outputs the operator lists."""
        return len(self.view.outputs)

    def wants(self, index: int) -> bool:
        """Whether optional output ``index`` is listed."""
        return index < len(self.view.outputs)

    def is_read(self, blob: str) -> bool:
        """Whether any operator of the net, or its caller, reads a blob; names are unique after SSA renaming."""
        return blob in self.lowering.reads.counts

    # What inference knows

    def shape(self, value: Value) -> ir.Shape:
        """Return the dims of a value; refuse the operator where the rank is unknown, or not the same in every run."""
        if value.shape is None and has_varying_rank(value):
            reason = f"the rank of {value.name or 'an operand'!r} depends on the branch, or the iteration, that is run"
            self.unsupported(reason, "a Workspace runs such a net, one body after the other", "needs-shape")
        return super().shape(value)

    def known(self, value: Value) -> Array | None:
        """Return the contents of a parameter or constant, else None; record that the emitted nodes depend on them."""
        if value.const_value is not None:
            self.lowering.consulted.setdefault(value, None)
        return super().known(value)

    def depends_on(self, value: Value, contents: Array) -> None:
        """Note that what is emitted holds for these contents of a value alone, which follow from known dims."""
        self.lowering.consulted[value] = contents

    def looks_behind(self, value: Value) -> None:
        """Note that what is emitted depends on the node that makes a value."""
        self.lowering.measured.add(value)

    @property
    def dims(self) -> DimFacts:
        """Where to record which symbolic dims are equal, and how they are usually called."""
        return self.lowering.dims

    # Emission

    def const(self, array: Any, dtype: Any = None) -> Value:
        """Return a constant; ``dtype`` is a NumPy dtype, an ONNX type, or the value whose type it shall have.

        A number that the type does not hold refuses the operator.
        """
        if isinstance(dtype, Value):
            dtype = self.dtype(dtype)
        if isinstance(dtype, ir.DataType):
            dtype = dtype.numpy()
        try:
            return self.scope.constants.add(np.asarray(array, dtype=dtype))
        except (OverflowError, ValueError):  # too large; an infinity or a NaN as an integer
            self.unsupported(f"elements of type {np.dtype(dtype)} do not hold {array}", code="invalid-operands")

    @overload
    def emit(
        self,
        op_type: str,
        *inputs: Value | None,
        outputs: Literal[1] = 1,
        shape: Any = None,
        dtype: Any = None,
        domain: Any = "",
        reserved: Any = None,
        **attrs: Any,
    ) -> Value: ...
    @overload
    def emit(
        self,
        op_type: str,
        *inputs: Value | None,
        outputs: int,
        shape: Any = None,
        dtype: Any = None,
        domain: Any = "",
        reserved: Any = None,
        **attrs: Any,
    ) -> tuple[Value, ...]: ...
    def emit(
        self,
        op_type: str,
        *inputs: Value | None,
        outputs: int = 1,
        shape: Sequence[Any] | None = None,
        dtype: ir.DataType | None = None,
        domain: str = "",
        reserved: Mapping[str, Any] | None = None,
        **attrs: Any,
    ) -> Value | tuple[Value, ...]:
        """Emit an ONNX node and return its output, or its outputs where ``outputs`` is not 1.

        ``shape`` and ``dtype`` state what inference cannot see; nothing is inferred for another ``domain`` than ONNX's
        own. Attributes that are None are left out; ``reserved`` holds those that have the names of parameters of this
        method. Incompatible operands are reported.
        """
        attrs.update(reserved or {})
        given = ir.convenience.convert_attributes({k: v for k, v in attrs.items() if v is not None})
        for attribute in given:
            if attribute.type in _INTEGERS and not _fits(attribute.value):
                reason = f"attribute {attribute.name!r} of {op_type} must fit into 64 bits, not {attribute.value}"
                self.unsupported(reason, code="invalid-argument")
        node = ir.Node(
            domain,
            op_type,
            inputs,
            given,
            num_outputs=outputs,
            name="",  # NameNodes names it
            metadata_props=node_metadata(self.type, self.location_text),
        )
        try:
            if not domain:
                infer_outputs(node, self.scope.opset)
        except ShapeMismatchError as error:
            self.unsupported(str(error), code="invalid-operands")
        if shape is not None:
            if any(isinstance(dim, int) and not _fits(dim) for dim in shape):
                self.unsupported(f"a result has dims beyond 64 bits: {list(shape)}", code="invalid-operands")
            node.outputs[0].shape = merge_shapes(node.outputs[0].shape, shape)
        if dtype is not None:
            node.outputs[0].type = ir.TensorType(dtype)
        for value in node.outputs:
            if value.shape is not None and len(value.shape) > MAX_RANK:
                reason = f"a result has {len(value.shape):,} dims; at most {MAX_RANK} are supported"
                self.unsupported(reason, code="invalid-operands")
        self.scope.append(node, self.view.outputs[0] if self.view.outputs else self.type)
        return node.outputs[0] if outputs == 1 else tuple(node.outputs)

    def call(self, function: onnx.FunctionProto, *inputs: Value | None, **attrs: Any) -> Value | tuple[Value, ...]:
        """Emit a call of a function of ONNX, and return its output, or its outputs where it has several.

        The function becomes part of the model. Types and shapes of the outputs follow from it.
        """
        self.lowering.functions[function.domain, function.name] = function
        outputs = self.emit(
            function.name, *inputs, outputs=len(function.output), domain=function.domain, reserved=attrs
        )
        values = outputs if isinstance(outputs, tuple) else (outputs,)
        types = [onnx.TypeProto() if value is None else ir.serde.serialize_value(value).type for value in inputs]
        given = [ir.to_proto(attr) for attr in ir.convenience.convert_attributes(attrs)]
        try:
            inferred = onnx.shape_inference.infer_function_output_types(function, types, given)
        except (onnx.shape_inference.InferenceError, RuntimeError) as error:
            self.unsupported(f"function {function.name!r} does not take the operands: {error}", code="invalid-operands")
        for value, known in zip(values, inferred, strict=True):
            value.type = ir.serde.deserialize_type_proto_for_type(known)
            value.shape = ir.serde.deserialize_type_proto_for_shape(known)
        return outputs

    # Bodies

    def inside(self, scope: Scope) -> Op:
        """Return this operator, emitting into a body's scope."""
        return Op(self.view, scope, self.location, self.lowering)

    def lower_body(self, net: NetDef, scope: Scope, name: str) -> None:
        """Lower a sub-net into a body's scope; what is found in it is reported at its place."""
        before = self.lowering.errors
        self.lowering.net(net, scope, self.location.enter(name))
        if self.lowering.errors > before or scope.poisoned:
            raise RefusedBodyError


def _fits(value: Any) -> bool:
    """Whether an integer, or each of several, is one of int64."""
    values = (value,) if isinstance(value, int) else value
    return all(-_BOUND <= each < _BOUND for each in values)


def merge_shapes(inferred: ir.Shape | None, stated: Sequence[Any]) -> ir.Shape:
    """Return the dims of a converter's statement, with unknown ones filled from inference."""
    stated_shape = ir.Shape(stated)
    if inferred is None or len(inferred) != len(stated_shape):
        return stated_shape
    return ir.Shape(
        [
            i if (not isinstance(s, int) and (s.value is None or isinstance(i, int))) else s
            for s, i in zip(stated_shape, inferred, strict=True)
        ]
    )

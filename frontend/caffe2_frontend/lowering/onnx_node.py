"""Convert ONNX operators that are embedded in a Caffe2 net."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import onnx
import onnx_ir as ir

from caffe2_bridge.netdef.views import ArgumentError
from caffe2_bridge.proto.caffe2_pb2 import Argument, NetDef
from caffe2_frontend.interop.metadata.embedded_onnx import (
    CAPTURED,
    ONNX_DOMAIN,
    TYPES,
    read_attribute,
    read_input_types,
    read_type,
)
from caffe2_frontend.interop.metadata.origin import node_metadata
from caffe2_frontend.interop.native_limits import attribute_faults, list_faults, operand_faults, operator_key
from caffe2_frontend.lowering.op import Op, Value

_LISTS: Final = frozenset({ir.AttributeType.INTS, ir.AttributeType.STRINGS})


def convert_onnx_node(op: Op) -> tuple[Value | None, ...]:
    """Emit the ONNX node that an operator of an ONNX domain represents, with its bodies."""
    view = op.view
    args = {arg.name: arg for arg in view.proto.arg}
    view.args.ignore(*args)
    captured = view.args.texts(CAPTURED, ())
    count = len(view.inputs) - len(captured)
    if count < 0:
        raise ArgumentError(f"the operator captures {len(captured)} operands, but has only {len(view.inputs)} inputs")
    inputs = [op.input(i) if name else None for i, name in enumerate(view.inputs[:count])]
    seen = {name: op.input(count + i) for i, name in enumerate(captured)}
    attributes = [_attribute(op, arg, seen) for name, arg in args.items() if not name.startswith(":")]
    domain = view.proto.domain
    if domain == ONNX_DOMAIN:
        _require_operands(op, inputs)
    _require_native(op, domain, inputs, attributes)
    node = ir.Node(
        "" if domain == ONNX_DOMAIN else domain,
        view.type,
        inputs,
        attributes,
        name=view.name or None,
        num_outputs=len(view.outputs),
        metadata_props=node_metadata(view.type, op.location),
    )
    types = view.args.blobs(TYPES, ())
    op.scope.append(node, next(filter(None, view.outputs), view.type))
    for index, (name, value) in enumerate(zip(view.outputs, node.outputs, strict=True)):
        if not name:
            op.scope.unbound.discard(value)
            value.name = ""
        elif index < len(types):
            known = read_type(types[index])
            value.type, value.shape = known.type, known.shape
    return tuple(value if name else None for name, value in zip(view.outputs, node.outputs, strict=True))


def _require_operands(op: Op, inputs: Sequence[Value | None]) -> None:
    """Refuse an operator of ONNX without the operands that its schema requires: later passes rely on those."""
    try:
        schema = onnx.defs.get_schema(op.type, op.scope.opset)
    except onnx.defs.SchemaError:  # not an operator of ONNX: the runtime's error names it
        return
    for what, count, least, most in (
        ("inputs", len(inputs), schema.min_input, schema.max_input),
        ("outputs", op.output_count, schema.min_output, schema.max_output),
    ):
        if not least <= count <= most:
            op.unsupported(
                f"the operator lists {count} {what}, but ONNX's {op.type} has at least {least} and at most {most}",
                code="operand-count",
            )
    for index, (formal, value) in enumerate(zip(schema.inputs, inputs, strict=False)):
        if value is None and formal.option == onnx.defs.OpSchema.FormalParameterOption.Single:
            op.unsupported(f"input {index} ({formal.name}) is missing", code="missing-input")


def _require_native(op: Op, domain: str, inputs: Sequence[Value | None], attributes: Sequence[ir.Attr]) -> None:
    """Refuse a node that ends onnxruntime's process."""
    key = operator_key(domain, op.type)
    own = [attr for attr in attributes if not attr.is_ref()]
    integers = {attr.name: attr.as_int() for attr in own if attr.type == ir.AttributeType.INT}
    floats = {attr.name: attr.as_float() for attr in own if attr.type == ir.AttributeType.FLOAT}
    lists = {attr.name: attr.value for attr in own if attr.type in _LISTS}
    shapes = [None if value is None else value.shape for value in inputs]
    dims = [None if shape is None else [dim if isinstance(dim, int) else None for dim in shape] for shape in shapes]
    given = [value is not None for value in inputs]
    faults = (*attribute_faults(key, integers, floats), *list_faults(key, lists))
    for reason in (*faults, *operand_faults(key, integers, given, dims)):
        op.unsupported(reason, code="malformed-model")


def _attribute(op: Op, arg: Argument, captured: Mapping[str, Value]) -> ir.Attr:
    if arg.HasField("n") and ":" not in arg.name:
        return ir.AttrGraph(arg.name, _graph(op, arg.n, arg.name, captured))
    if arg.nets and ":" not in arg.name:
        return ir.AttrGraphs(arg.name, [_graph(op, net, arg.name, captured) for net in arg.nets])
    return read_attribute(arg)


def _graph(op: Op, net: NetDef, name: str, captured: Mapping[str, Value]) -> ir.Graph:
    """Lower a body, which can read its own inputs and the captured values."""
    types = read_input_types(net)
    formals = []
    for blob in net.external_input:
        known = types.get(blob)
        value = ir.Value(name=op.scope.names.fresh(blob))
        if known is not None:
            value.type, value.shape = known.type, known.shape
        formals.append(value)
    scope = op.scope.child(sealed=True)
    scope.blobs.update(captured)
    scope.blobs.update(zip(net.external_input, formals, strict=True))
    op.lower_body(net, scope, name)
    own = {value for node in scope.nodes for value in node.outputs}
    results: list[Value] = []
    for blob in net.external_output:
        found = scope.find(blob)
        if found is None:
            op.unsupported(f"body {name!r} outputs {blob!r}, which no operator in it writes", code="undefined-output")
        results.append(found if found in own and found not in results else op.inside(scope).emit("Identity", found))
    return scope.graph(formals, results, net.name or name)

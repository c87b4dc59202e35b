"""If and Loop as Caffe2's If and ONNXWhile, whose bodies see the blobs around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import Op
from caffe2_bridge.control import if_arguments, onnx_while_arguments
from caffe2_bridge.netdef.construct import make_operator
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend.interop.bodies import captured_values
from caffe2_frontend.interop.operator_base import RefusedBodyError

family = Family("control")


@family.converts("If")
def branch(op: Op) -> tuple[str, ...]:
    """Both nets run in the workspace around them and write the operator's outputs."""
    names = _outputs(op)
    nets = []
    for attribute in ("then_branch", "else_branch"):
        graph = op.graph(attribute)
        net = NetDef(name=op.fresh(attribute), op=lowered_body(op, graph, attribute))
        for value, name in zip(graph.outputs, names, strict=True):
            net.op.append(OperatorDef(type="Copy", input=[str(value.name)], output=[name]))
        net.external_output.extend(names)
        nets.append(net)
    op.made.ops.append(make_operator("If", [op.input(0), *_captured(op)], names, if_arguments(*nets)))
    return names


@family.converts("Loop")
def loop(op: Op) -> tuple[str, ...]:
    """After no round at all a stacked output is Caffe2's: int32, of no elements."""
    graph = op.graph("body")
    initial = [op.input(i) for i in range(2, op.input_count)]
    number, going = (str(value.name) for value in graph.inputs[:2])
    states = [str(value.name) for value in graph.inputs[2:]]
    results = [str(value.name) for value in graph.outputs]
    trips = op.input(0) if op.has_input(0) else None
    goes_on = op.input(1) if op.has_input(1) else None
    inner = Body(number, going, states, lowered_body(op, graph, "body"), results)
    names = _outputs(op)
    while_loop(op, trips, goes_on, initial, inner, names)
    return names


@dataclass(frozen=True)
class Body:
    """The body of a loop: its formal blobs, its operators, and what it gives: whether to go on, states, rows."""

    number: str
    going: str
    states: Sequence[str]
    ops: Sequence[OperatorDef]
    results: Sequence[str]


def while_loop(
    op: Op, trips: str | None, going: str | None, initial: Sequence[str], body: Body, names: Sequence[str]
) -> None:
    """Emit an ONNXWhile that writes the blobs ``names``: the states after the last round, then stacked rows."""
    held = len(initial)
    inside = op.inside()
    inside.made.ops.extend(body.ops)
    # Copies, since states are written one after the other; rows have the dim along which Caffe2 makes them longer.
    after = [inside.emit("Copy", name) for name in body.results[: held + 1]]
    after += [inside.emit("ExpandDims", name, dims=[0]) for name in body.results[held + 1 :]]
    net = NetDef(name=op.fresh("body"), op=inside.made.ops)
    net.external_input.extend([body.number, body.going, *body.states])
    net.external_output.extend(after)
    limit = trips if trips is not None else op.const(0, np.int64)
    first = going if going is not None else op.const(True, np.bool_)  # noqa: FBT003 - a value, no flag
    arguments = onnx_while_arguments(
        net, carried=held, has_trip_count=trips is not None, has_condition=going is not None
    )
    made = {name for own in inside.made.ops for name in own.output}.union(net.external_input)
    outer = dict.fromkeys(name for own in inside.made.ops for name in own.input if name not in made)
    net.external_input.extend(outer)
    op.made.ops.append(make_operator("ONNXWhile", [limit, first, *initial, *outer], names, arguments))


def lowered_body(op: Op, graph: ir.Graph, name: str) -> list[OperatorDef]:
    """The operators of a body. What is found in it is reported at its place, and refuses the operator."""
    if op.lowering.foreign == "carry":
        op.unsupported("bodies travel as they are")
    if any(isinstance(value.type, ir.SequenceType | ir.OptionalType) for value in (*graph.inputs, *graph.outputs)):
        op.unsupported(f"the body {name!r} takes or gives what is no tensor", code="needs-shape")
    before = len(op.lowering.findings)
    ops = []
    for index, node in enumerate(graph):
        ops += op.lowering.node(node, op.location.enter(name, index, node.op_type, node.name or ""))
    if len(op.lowering.findings) > before:
        raise RefusedBodyError
    return ops


def _captured(op: Op) -> list[str]:
    return list(dict.fromkeys(str(value.name) for value in captured_values(op.node)))


def _outputs(op: Op) -> tuple[str, ...]:
    return tuple(value.name or op.fresh("unused") for value in op.node.outputs)

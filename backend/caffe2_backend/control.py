"""If, Loop and Scan as Caffe2's If and ONNXWhile, whose bodies see the blobs around them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from caffe2_backend.carry import captured_values
from caffe2_backend.family import Family
from caffe2_backend.op import Op, RefusedBodyError
from caffe2_backend.shapes import dim_of, moved
from caffe2_bridge.arguments import make_operator
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

family = Family("control")


@family.converts("If")
def branch(op: Op) -> tuple[str, ...]:
    """Both nets run in the workspace around them and write the operator's outputs."""
    names = _outputs(op)
    nets = {}
    for attribute, argument in (("then_branch", "then_net"), ("else_branch", "else_net")):
        graph = op.graph(attribute)
        net = NetDef(name=op.fresh(argument), op=_lowered(op, graph, attribute))
        for value, name in zip(graph.outputs, names, strict=True):
            net.op.append(OperatorDef(type="Copy", input=[str(value.name)], output=[name]))
        net.external_output.extend(names)
        nets[argument] = net
    op.made.ops.append(make_operator("If", [op.input(0), *_captured(op)], names, nets))
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
    inner = _Body(number, going, states, _lowered(op, graph, "body"), results)
    return _while(op, trips, goes_on, initial, inner)


@family.converts("Scan")
def scan(op: Op) -> tuple[str, ...]:
    """A loop that reads a row of each sequence by its number, from the front or from the back."""
    graph = op.graph("body")
    count = op.integer("num_scan_inputs", 0)
    held = len(graph.inputs) - count
    stacked = len(graph.outputs) - held
    axes, directions = (
        op.integers("scan_input_axes") or [0] * count,
        op.integers("scan_input_directions") or [0] * count,
    )
    axes = [op.axis(axis, op.rank(held + i)) for i, axis in enumerate(axes)]
    out_axes = op.integers("scan_output_axes") or [0] * stacked
    out_directions = op.integers("scan_output_directions") or [0] * stacked
    initial, sequences = op.inputs[:held], op.inputs[held:]
    trips = dim_of(op, sequences[0], axes[0])
    inside = op.inside()
    number = op.fresh("number")
    last = op.emit("Sub", trips, op.const([1], np.int64))
    for i, value in enumerate(graph.inputs[held:]):
        place = inside.reshape(number, [1])
        if directions[i]:
            place = inside.emit("Sub", last, place)
        row = inside.emit("Gather", sequences[i], place, axis=axes[i])
        inside.emit("Squeeze", row, dims=[axes[i]])
        inside.made.ops[-1].output[0] = str(value.name)
    states = [str(value.name) for value in graph.inputs[:held]]
    results = [op.fresh("going"), *(str(value.name) for value in graph.outputs)]
    ops = [*inside.made.ops, *_lowered(op, graph, "body")]
    going = op.fresh("going")
    ops.append(OperatorDef(type="Copy", input=[going], output=[results[0]]))
    made = list(_while(op, trips, None, initial, _Body(number, going, states, ops, results), bind=False))
    for i in range(stacked):
        blob = made[held + i]
        rank = _rank(op, op.node.outputs[held + i])
        if out_directions[i]:
            steps = op.emit("Range", op.const([0], np.int64), trips, op.const([1], np.int64))
            blob = op.emit("Gather", blob, op.emit("Sub", last, steps), axis=0)
        axis = op.axis(out_axes[i], rank)
        made[held + i] = moved(op, blob, [*range(1, axis + 1), 0, *range(axis + 1, rank)])
    return tuple(made)


class _Body:
    """The body of a loop: its formal blobs, its operators, and what it gives: whether to go on, states, rows."""

    def __init__(
        self, number: str, going: str, states: Sequence[str], ops: Sequence[OperatorDef], results: Sequence[str]
    ) -> None:
        self.number, self.going, self.states, self.ops, self.results = number, going, states, ops, results


def _while(
    op: Op, trips: str | None, going: str | None, initial: Sequence[str], body: _Body, *, bind: bool = True
) -> tuple[str, ...]:
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
    arguments = {
        "body": net,
        "has_trip_count": int(trips is not None),
        "has_cond": int(going is not None),
        "num_loop_carried_deps": held,
        "disable_scopes": 1,  # Caffe2's own scopes hide the blobs around the body from it
    }
    names = _outputs(op) if bind else tuple(op.fresh("result") for _ in op.node.outputs)
    made = {name for own in inside.made.ops for name in own.output}.union(net.external_input)
    outer = dict.fromkeys(name for own in inside.made.ops for name in own.input if name not in made)
    net.external_input.extend(outer)
    op.made.ops.append(make_operator("ONNXWhile", [limit, first, *initial, *outer], names, arguments))
    return names


def _lowered(op: Op, graph: ir.Graph, name: str) -> list[OperatorDef]:
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
        raise RefusedBodyError("its body cannot be converted")
    return ops


def _captured(op: Op) -> list[str]:
    return list(dict.fromkeys(str(value.name) for value in captured_values(op.node)))


def _outputs(op: Op) -> tuple[str, ...]:
    return tuple(value.name or op.fresh("unused") for value in op.node.outputs)


def _rank(op: Op, value: ir.Value) -> int:
    if value.shape is None:
        op.unsupported(f"the rank of {value.name!r} is unknown", code="needs-shape")
    return len(value.shape)

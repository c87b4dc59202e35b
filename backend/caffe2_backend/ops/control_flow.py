"""If and Loop as Caffe2's If and ONNXWhile, whose bodies see the blobs around them."""

from __future__ import annotations

from caffe2_backend.emit.loops import LoopBody, emit_loop
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.types import UNDEFINED
from caffe2_backend.lowering.value import Value
from caffe2_bridge.control import if_arguments
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend.interop.bodies import captured_values

family = Family("control_flow")


@family.converts("If")
def if_(op: Op) -> tuple[Value, ...]:
    """``If(cond; then_branch, else_branch) -> *outputs``: If, whose nets write its outputs."""
    names = _output_names(op)
    nets = []
    for attribute in ("then_branch", "else_branch"):
        graph = op.args.graph(attribute)
        net = NetDef(name=op.fresh(attribute), op=op.lower_body(graph, attribute))
        for value, name in zip(graph.outputs, names, strict=True):
            net.op.append(OperatorDef(type="Copy", input=[str(value.name)], output=[name]))
        net.external_output.extend(names)
        nets.append(net)
    captured = dict.fromkeys(str(value.name) for value in captured_values(op.node))
    op.append("If", [op.input(0).name, *captured], names, if_arguments(*nets))
    return _values(op, names)


@family.converts("Loop")
def loop(op: Op) -> tuple[Value, ...]:
    """``Loop(M, cond, *v_initial; body) -> *v_final_and_scan_outputs``: ONNXWhile.

    A stacked output of no iterations is Caffe2's: int32, without elements.
    """
    graph = op.args.graph("body")
    iteration, condition, *states = (str(value.name) for value in graph.inputs)
    results = [str(value.name) for value in graph.outputs]
    initial = [op.input(i) for i in range(2, op.input_count)]
    body = LoopBody(iteration, condition, states, op.lower_body(graph, "body"), results)
    names = _output_names(op)
    emit_loop(op, op.optional(0), op.optional(1), initial, body, names)
    return _values(op, names)


def _output_names(op: Op) -> tuple[str, ...]:
    return tuple(value.name or op.fresh("unused") for value in op.node.outputs)


def _values(op: Op, names: tuple[str, ...]) -> tuple[Value, ...]:
    return tuple(op.blob(name, value.dtype or UNDEFINED) for name, value in zip(names, op.node.outputs, strict=True))

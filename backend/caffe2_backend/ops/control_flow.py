"""If and Loop as Caffe2's If and ONNXWhile, whose bodies see the blobs around them."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from caffe2_backend.emit.fill import full
from caffe2_backend.emit.loops import LoopBody, emit_loop
from caffe2_backend.emit.shapes import dim_of
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.types import STRING, UNDEFINED
from caffe2_backend.lowering.value import Value
from caffe2_bridge.control import if_arguments
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend.interop.bodies import captured_values
from caffe2_frontend.interop.types import INT32

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

    A stacked output of no iterations is int32 [0] in Caffe2: where there may be none, an If gives it its element type
    and its dims, those that are not known as 0, as onnxruntime does.
    """
    graph = op.args.graph("body")
    states = [str(value.name) for value in graph.inputs[2:]]
    results = [str(value.name) for value in graph.outputs]
    initial = [op.input(i) for i in range(2, op.input_count)]
    with op.inside() as ops:
        iteration, condition = (_scalar_formal(op, value) for value in graph.inputs[:2])
    body = LoopBody(iteration, condition, states, [*ops, *op.lower_body(graph, "body")], results)
    names = _output_names(op)
    emit_loop(op, op.optional(0), op.optional(1), initial, body, names)
    values = _values(op, names)
    if not _runs_once(op):
        _shape_no_iterations(op, values[len(initial) :], op.node.outputs[len(initial) :])
    return values


def _scalar_formal(op: Op, formal: ir.Value) -> str:
    """Return the scalar that Caffe2 gives the body, which may declare a list of one element, as onnxruntime allows."""
    name = str(formal.name)
    if formal.shape is None or len(formal.shape) != 1:
        return name
    scalar = op.fresh("scalar")
    op.append("ExpandDims", [scalar], [name], {"dims": [0]})
    return scalar


def _runs_once(op: Op) -> bool:
    """Whether a loop is known to run at least once."""
    given = [op.known(value) for value in (op.optional(0), op.optional(1)) if value is not None]
    return all(known is not None and known.size == 1 and known.item() > 0 for known in given)


def _shape_no_iterations(op: Op, values: Sequence[Value], outputs: Sequence[ir.Value]) -> None:
    """Write stacked outputs again where there was no iteration."""
    others = [pair for pair in zip(values, outputs, strict=True) if _is_other_without_elements(pair[1])]
    if not others:
        return
    with op.inside() as ops:
        for value, output in others:
            assert output.dtype is not None
            assert output.shape is not None
            sizes = [size if isinstance(size, int) else 0 for size in output.shape[1:]]
            op.append("Copy", [full(op, [0, *sizes], output.dtype, 0).name], [value.name], {})
    names = [value.name for value, _ in others]
    net = NetDef(name=op.fresh("no_iterations"), op=ops, external_output=names)
    none = dim_of(op, others[0][0], 0).equals(0).reshape([])
    op.append("If", [none.name, *names], names, if_arguments(net))


def _is_other_without_elements(output: ir.Value) -> bool:
    """Whether a stacked output of no iterations, of which Caffe2 has no strings, is known not to be int32 [0]."""
    if output.dtype in (None, STRING) or output.shape is None:
        return False
    return output.dtype != INT32 or len(output.shape) > 1


def _output_names(op: Op) -> tuple[str, ...]:
    return tuple(value.name or op.fresh("unused") for value in op.node.outputs)


def _values(op: Op, names: tuple[str, ...]) -> tuple[Value, ...]:
    return tuple(op.blob(name, value.dtype or UNDEFINED) for name, value in zip(names, op.node.outputs, strict=True))

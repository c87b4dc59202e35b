"""Adapters of conditions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import known_equal
from caffe2_frontend.emit.subgraphs import common_shape
from caffe2_frontend.interop.types import INT64
from caffe2_frontend.opsets.rewriter import Rewriter
from caffe2_frontend.opsets.rules import Rules

rules = Rules()


@rules.before(11, "If")
def branches_of_one_shape(at: Rewriter) -> None:
    """Give the branches of an If one shape: outputs whose shapes may differ are hidden from shape inference.

    It took each dim from whichever branch knows it, also where the branches differ; onnxruntime computes sizes ahead
    and reuses memory by the result.
    """
    then, other = (at.node.attributes[name].as_graph() for name in ("then_branch", "else_branch"))
    for index, (a, b) in enumerate(zip(then.outputs, other.outputs, strict=True)):
        if not isinstance(a.type, ir.TensorType) or not isinstance(b.type, ir.TensorType):
            continue
        if a.shape is not None and b.shape is not None and known_equal(a.shape, b.shape):
            continue
        shape = common_shape(a.shape, b.shape)
        for graph, value in ((then, a), (other, b)):
            graph.outputs[index] = at.append(graph, _hidden(at, value, shape))


def _hidden(at: Rewriter, value: ir.Value, shape: ir.Shape | None) -> Callable[[], ir.Value]:
    """Make a function that emits a reshape to the value's own shape, which depends on the condition: times 0."""

    def emit() -> ir.Value:
        nothing = at.emit("Mul", at.cast(at.input(0), INT64), at.const(0, np.int64))
        same = at.emit("Reshape", value, at.emit("Add", at.emit("Shape", value), nothing))
        same.type, same.shape = value.type, shape
        return same

    return emit

"""Inference of a whole model, which is not repeated where nothing has changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnx import parser

from caffe2_backend import to_netdef
from caffe2_backend.passes import flatten

TEXT = """<ir_version: 8, opset_import: ["": 20]> g (float[N,3] x) => (float y)
  <int64[2] s = {3, -1}> { a = Relu(x) b = Reshape(a, s) y = Neg(b) }"""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    made: list[int] = []
    infer_shapes = flatten.infer_shapes

    def counted(*args: Any, **options: Any) -> Any:
        made.append(1)
        return infer_shapes(*args, **options)

    monkeypatch.setattr(flatten, "infer_shapes", counted)
    return made


def test_a_model_that_has_not_changed_is_not_inferred_again(calls: list[int]) -> None:
    model = ir.from_proto(parser.parse_model(TEXT))
    flatten.infer(model)
    flatten.infer(model)
    assert len(calls) == 1
    assert model.graph[1].outputs[0].shape == ir.Shape([3, None])


@pytest.mark.parametrize("change", ["shape", "constant", "attribute", "operand", "type"])
def test_each_change_is_seen(calls: list[int], change: str) -> None:
    model = ir.from_proto(parser.parse_model(TEXT))
    flatten.infer(model)
    relu = model.graph[0]
    match change:
        case "shape":
            model.graph.inputs[0].shape = ir.Shape([4, 3])
        case "constant":
            model.graph.initializers["s"].const_value = ir.Tensor(np.array([2, -1]))
        case "attribute":
            relu.attributes["own"] = ir.AttrInt64("own", 1)
        case "operand":
            model.graph[2].replace_input_with(0, relu.outputs[0])
        case _:
            relu.outputs[0].type = None
    flatten.infer(model)
    assert len(calls) == 2


def test_a_model_with_bodies_is_always_inferred(calls: list[int]) -> None:
    branch = "y = If(c)<then_branch = t () => (float u) { u = Neg(b) }, else_branch = e () => (float v) { v = Abs(b) }>"
    text = TEXT.replace("y = Neg(b)", branch).replace("x) =>", "x, bool c) =>")
    model = ir.from_proto(parser.parse_model(text))
    flatten.infer(model)
    flatten.infer(model)
    assert len(calls) == 2


def test_an_import_infers_a_plain_model_once(calls: list[int]) -> None:
    to_netdef(parser.parse_model(TEXT))
    assert len(calls) == 1


@pytest.mark.parametrize("foreign", ["carry", "error"])
def test_a_constant_that_nothing_reads_needs_no_name(foreign: Any) -> None:
    model = parser.parse_model(TEXT.replace("{ a =", "{ c = Constant <value_int = 7> () a ="))
    next(node for node in model.graph.node if node.op_type == "Constant").output[0] = ""
    assert [op.type for op in to_netdef(model, foreign=foreign).predict_net.op][-1] == "Negative"

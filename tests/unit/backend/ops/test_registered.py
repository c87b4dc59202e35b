"""Importers that the user's own code registers.

Modules: registered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx
import pytest
from onnx import parser

from caffe2_backend import register_importer, to_netdef
from caffe2_backend.ops import INFERENCES, REGISTERED
from caffe2_bridge import ConversionError
from caffe2_bridge.diagnostics import OptionError

NODE = """<ir_version: 9, opset_import: ["": 20, "my.domain": 1]> g (float[N,3] x) => (float[N,3] y) {
  a = my.domain.Clamp<limit = 8.0>(x) y = Relu(a) }"""
FUNCTION = """ <domain: "my.domain", opset_import: ["": 20]> Clamp <limit> (x) => (y) {
  l = Constant<value_float: float = @limit>() y = Min(x, l) }"""


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    yield
    REGISTERED.clear()
    INFERENCES.clear()


def types(model: onnx.ModelProto, **options: Any) -> list[str]:
    return [op.type for op in to_netdef(model, **options).predict_net.op]


def register_clamp(**options: Any) -> None:
    @register_importer("my.domain::Clamp", **options)
    def clamp(op: Any) -> Any:
        return op.emit("OwnClamp", op.input(0), limit=op.args.number("limit"))


def test_a_node_of_ones_own_domain() -> None:
    with pytest.raises(ConversionError, match=r"'my.domain::Clamp' has no conversion"):
        to_netdef(parser.parse_model(NODE))
    register_clamp(infer=lambda operands: operands[:1])
    net = to_netdef(parser.parse_model(NODE)).predict_net
    assert [op.type for op in net.op] == ["OwnClamp", "Relu"]
    assert net.op[0].arg[0].f == 8
    net = to_netdef(parser.parse_model(NODE), foreign="carry").predict_net
    assert [(op.domain, op.type) for op in net.op] == [("", "OwnClamp"), ("", "Relu")]


def test_a_function_of_the_model_is_not_inlined() -> None:
    model = parser.parse_model(NODE + FUNCTION)
    inlined, carried = types(model), types(model, foreign="carry")
    assert "OwnClamp" not in inlined
    register_clamp()
    assert types(model) == ["OwnClamp", "Relu"]
    assert types(model, foreign="carry") == carried


def test_an_operator_of_onnxruntime_that_this_project_defines_can_be_replaced() -> None:
    head = '<ir_version: 9, opset_import: ["": 20, "com.microsoft": 1]>'
    text = f"{head} g (float[N] x) => (float[N] y) {{ y = com.microsoft.QuickGelu(x) }}"
    assert len(types(parser.parse_model(text))) > 1
    register_importer("com.microsoft::QuickGelu")(lambda op: op.emit("OwnGelu", op.input(0)))
    assert types(parser.parse_model(text)) == ["OwnGelu"]


def test_types_that_cannot_be_registered() -> None:
    for op_type, reason in (
        ("Clamp", "must be DOMAIN::TYPE, not 'Clamp'"),
        ("ai.onnx.ml::ZipMap", "has an importer already"),
    ):
        with pytest.raises(OptionError, match=reason):
            register_importer(op_type)
    with pytest.raises(OptionError, match="name the operator types"):
        register_importer()

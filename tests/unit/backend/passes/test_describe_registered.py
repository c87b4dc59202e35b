"""Types of the results of nodes that the user's own code imports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx
import pytest
from onnx import parser

from caffe2_backend import register_importer, to_netdef
from caffe2_backend.ops import INFERENCES, REGISTERED
from caffe2_bridge import ConversionError

NODE = """<ir_version: 9, opset_import: ["": 20, "my.domain": 1]> g (float[N,3] x) => (float[N,3] y) {
  a = my.domain.Clamp<limit = 8.0>(x) y = Relu(a) }"""


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


def test_types_of_results_that_are_not_inferred() -> None:
    register_clamp()
    with pytest.raises(ConversionError, match="'a' is not a tensor of a known element type"):
        to_netdef(parser.parse_model(NODE))
    declared = parser.parse_model(NODE)
    declared.graph.value_info.add(name="a").type.CopyFrom(declared.graph.input[0].type)
    assert types(declared) == ["OwnClamp", "Relu"]
    register_clamp(infer=lambda operands: [operands[1]])
    with pytest.raises(ConversionError, match="the registered inference failed: IndexError"):
        to_netdef(parser.parse_model(NODE))

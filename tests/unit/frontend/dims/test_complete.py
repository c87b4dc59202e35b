"""Completion of shapes from better known operands."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from caffe2_frontend.dims import complete
from caffe2_frontend.dims.complete import complete_shapes

HEAD = '<ir_version: 9, opset_import: ["" : 20]>\n'


def completed(text: str) -> list[int | str | None]:
    """Return the dims of the first output."""
    model = ir.from_proto(onnx.parser.parse_model(HEAD + text))
    complete_shapes(model.graph, 20)
    shape = model.graph.outputs[0].shape
    assert shape is not None
    return [dim if isinstance(dim, int) else dim.value for dim in shape]


def test_known_shapes_stay() -> None:
    text = """g (float[T, N] x) => (int64[A] y) <int64 zero = {0}, int64 one = {1}>
        { s = Shape<start = 0, end = 1>(x)  n = Squeeze(s)  y = Range(zero, n, one) }"""
    assert completed(text) == ["A"]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("s = Shape(x)  n = Gather(s, one)  y = Range(zero, n, one)", ["N"]),
        ("s = Shape(x)  y = ConstantOfShape(s)", ["T", "N"]),
        ("s = Shape(x)  h = Slice(s, first, second)  c = Concat<axis = 0>(h, second)  y = Reshape(x, c)", ["T", 1]),
        ("s = Shape(x)  y = Expand(one, s)", ["T", "N"]),
        ("b = Cast<to = 9>(x)  y = Where(b, x, x)", ["T", "N"]),
    ],
)
def test_sizes_are_followed(nodes: str, expected: list[int | str | None]) -> None:
    head = "g (int64[T, N] x) => (y) <int64 zero = {0}, int64 one = {1}, int64[1] first = {0}, int64[1] second = {1}>"
    assert completed(f"{head} {{ {nodes} }}") == expected


def test_a_scan_stacks_rows() -> None:
    text = """g (float[N, D] h, float[T, N, D] x) => (y) {
        last, y = Scan<num_scan_inputs = 1, body = b (float[N, D] a, float[N, D] r) => (c, d) {
            c = Add(a, r)  d = Identity(c) }>(h, x) }"""
    assert completed(text) == ["T", "N", "D"]


def test_nodes_that_are_alike_are_inferred_once(monkeypatch: pytest.MonkeyPatch) -> None:
    inferred: list[str] = []
    infer = complete.infer_outputs

    def counted(node: ir.Node, opset: int) -> None:
        inferred.append(node.op_type)
        infer(node, opset)

    monkeypatch.setattr(complete, "infer_outputs", counted)
    text = "g (float[N, D] x) => (float[A, B] y) { a = Relu(x)  b = Relu(a)  c = Relu(b)  d = Relu(c)  y = Relu(d) }"
    graph = ir.from_proto(onnx.parser.parse_model(HEAD + text)).graph
    (x,) = graph.inputs
    made = [node.outputs[0] for node in graph]
    for value in made:
        value.type = x.type
    assert complete_shapes(graph, 20)
    assert inferred == ["Relu"] * 2  # of x, whose shape is another object, and of what all others read
    assert x.shape == made[0].shape
    assert all(value.shape is made[0].shape for value in made[:-1])
    assert not complete_shapes(graph, 20)

"""Data propagation follows no long vectors, of which ONNX's inference holds an object for each element."""

from __future__ import annotations

import onnx
import pytest

from caffe2_bridge.bounds import MAX_FOLLOWED_ELEMENTS
from caffe2_frontend.interop.inference.shape_inference import infer_shapes

LONG = 1 << 40
PRODUCT = "() => (float[N] y) <int64[1] n = {1048576}> { m = Mul (n, n) c = ConstantOfShape (m) y = Sub (c, c) }"
RANGE = (
    "(float[2147483648, 3] x) => (int64[N] y) <int64 zero = {0}, int64 one = {1}> "
    "{ s = Shape (x) n = Gather (s, zero) r = Range (zero, n, one) y = Add (r, one) }"
)
ELEMENTS = (
    f"(seq(float[{LONG}]) x) => (float[N] y) <int64 i = {{0}}> {{ a = SequenceAt (x, i) y = Add (a, a) s = Shape (y) }}"
)
BRANCHES = (
    f"(bool[1] c, float[{LONG}] x) => (float[N] y) "
    "{ y = If (c) <then_branch = t () => (float[N] a) { a = Add (x, x) }, "
    "else_branch = e () => (float[N] b) { b = Identity (x) }> }"
)
DOUBLED = "".join(f"v{i + 1} = Concat <axis = 0> (v{i}, v{i}) " for i in range(40))


class Propagation:
    """Calls ONNX's inference, and remembers which operators it propagated data through."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.infer = onnx.shape_inference.infer_shapes  # noqa: TID251 - what is watched
        self.followed: list[list[str]] = []
        monkeypatch.setattr(onnx.shape_inference, "infer_shapes", self)

    def __call__(self, model: onnx.ModelProto, *, data_prop: bool, **options: bool) -> onnx.ModelProto:
        if data_prop:
            nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
            bodies = [attribute.g.node for node in nodes for attribute in node.attribute]
            nodes += [node for body in bodies for node in body]
            self.followed.append([node.op_type for node in nodes if not node.domain])
        return self.infer(model, data_prop=data_prop, **options)


def parsed(text: str, functions: str = "") -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 18, "own": 1]> g {text} {functions}')


def shapes_of(model: onnx.ModelProto) -> dict[str, list[int | str]]:
    infos = (*model.graph.value_info, *model.graph.output)
    dims = {info.name: info.type.tensor_type.shape.dim for info in infos if info.type.tensor_type.HasField("shape")}
    return {
        name: [dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in own]
        for name, own in dims.items()
    }


@pytest.mark.parametrize(
    ("text", "operator"),
    [
        (f"(float[{LONG}] x) => (float[N] y) {{ y = Add (x, x) s = Shape (y) }}", "Add"),
        (f"(float[{LONG}] x) => (int64 y) {{ y = Size (x) }}", "Size"),
        ("(float[65537] x) => (float[N] y) { y = Slice (x, n, n) s = Shape (y) }", "Slice"),
        (ELEMENTS, "Add"),
        # Lengths that are known with data alone
        (PRODUCT, "Sub"),
        (RANGE, "Add"),
        # In a body, of a value around it
        (BRANCHES, "Add"),
        # Small vectors, of which many make a long one
        (f"(int64[4] v0) => (int64[N] v40) {{ {DOUBLED} s = Shape (v40) }}", "Concat"),
        ("(int64[65536] v) => (int64[N] y) { y = Concat <axis = 0> (v, v) s = Shape (y) }", "Concat"),
    ],
)  # fmt: skip
def test_long_vectors_are_not_followed(text: str, operator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    propagation = Propagation(monkeypatch)
    given = parsed(text)
    inferred = infer_shapes(given, data_prop=True)
    count = [node.op_type for node in given.graph.node].count(operator)
    expected = 14 if count == 40 else 0  # of 4 elements, 14 doublings have at most 65536
    assert propagation.followed
    assert all(found.count(operator) == expected for found in propagation.followed)
    assert [node.domain for node in inferred.graph.node] == [""] * len(given.graph.node)
    assert list(inferred.opset_import) == list(given.opset_import)
    assert MAX_FOLLOWED_ELEMENTS == 65536


@pytest.mark.parametrize(
    "text",
    [
        "(float[N, 4] x, int64[2] v) => (float[N, M] y) { w = Concat <axis = 0> (v, v) y = Reshape (x, v) }",
        "(float[N, 4] x) => (float[M, 2] y) <int64[2] v = {-1, 2}> { a = Mul (x, x) y = Reshape (a, v) }",
    ],
)
def test_without_contents_types_are_inferred_once(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengths and constants that no operator computes with tell the same."""
    followed = onnx.shape_inference.infer_shapes(parsed(text), data_prop=True)  # noqa: TID251 - what is compared with
    propagation = Propagation(monkeypatch)
    assert shapes_of(infer_shapes(parsed(text), data_prop=True)) == shapes_of(followed)
    assert not propagation.followed


@pytest.mark.parametrize(
    ("nodes", "shape"),
    [
        ("s = Shape (x) y = Expand (z, s)", [3, 4]),
        ("n = Constant <value = int64[1] {3}> () v = Concat <axis = 0> (n, k) y = Expand (z, v)", [3, 5]),
        ("n = Mul (k, k) y = Expand (z, n)", [25]),
    ],
)
def test_contents_begin_with_dims_and_integers(nodes: str, shape: list[int]) -> None:
    model = parsed(f"(float[3, 4] x) => (y) <float[1] z = {{0}}, int64[1] k = {{5}}> {{ {nodes} }}")
    assert shapes_of(infer_shapes(model, data_prop=True))["y"] == shape


def test_functions_follow_what_they_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a function is given may be a long vector."""
    propagation = Propagation(monkeypatch)
    function = '<domain: "own", opset_import: ["": 18]> f (a) => (b) { s = Shape (a) z = Gather (s, s) b = Add (a, a) }'
    inferred = infer_shapes(parsed("(float[3, 4] x) => (y) { y = own.f (x) }", function), data_prop=True)
    assert propagation.followed == [["Shape", "Gather"]]
    assert shapes_of(inferred) == {"y": [3, 4]}
    assert list(inferred.functions[0].opset_import) == [onnx.OperatorSetIdProto(domain="", version=18)]
    assert [node.domain for node in inferred.functions[0].node] == [""] * 3


def test_lengths_that_data_tells_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Expand as exporters do: a vector as long as a rank, of which the products tell a rank, twice."""
    propagation = Propagation(monkeypatch)
    step = (
        "s{0} = Shape (t{0}) r{0} = Shape (s{0}) c{0} = ConstantOfShape <value = int64[1] {{1}}> (r{0}) "
        "m{0} = Mul (c{0}, two) e{0} = Equal (m{0}, c{0}) w{0} = Where (e{0}, c{0}, s{0}) t{1} = Expand (t{0}, w{0}) "
    )
    steps = step.format(0, 1) + step.format(1, 2)
    text = f"(float[3, 4, 5] t0) => (float y) <int64[1] two = {{2}}> {{ {steps} y = Shape (t2) z = Mul (y, two) }}"
    shapes = shapes_of(infer_shapes(parsed(text), data_prop=True))
    assert len(shapes["t1"]) == len(shapes["t2"]) == 3
    assert len(propagation.followed) > 1
    assert propagation.followed[-1].count("Mul") == 3


def test_types_of_hidden_operators_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    Propagation(monkeypatch)
    text = f"(float[{LONG}] x, float[N] s) => (y) {{ a = Add (x, x) b = Unsqueeze (a, n) y = Relu (a) d = Shape (y) }}"
    given = parsed(text)
    before = given.SerializeToString()
    inferred = infer_shapes(given, data_prop=True, strict_mode=True)
    assert given.SerializeToString() == before
    assert shapes_of(inferred)["y"] == shapes_of(inferred)["a"] == [LONG]

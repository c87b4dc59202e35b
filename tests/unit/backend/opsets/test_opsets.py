"""Operators on both sides of each change of their meaning, against what ONNX's text says, or onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance.oracle import OracleRun, run_oracle
from onnx import parser
from support.opset_cases import Spelling, spellings
from support.share import share

from caffe2_backend import Predictor, to_netdef
from caffe2_backend.onnx_backend import prepare
from caffe2_backend.opsets import experimental, legacy, meaning
from caffe2_backend.runtime.sessions.onnx_session import OnnxSession
from caffe2_bridge import ConversionError, RunError

BY_OPERATOR: dict[str, list[Spelling]] = {}
for _spelling in spellings():
    BY_OPERATOR.setdefault(_spelling.operator, []).append(_spelling)
# Scans of opset 8 are refused, or left to the pass upgrade_scan: see tests/unit/backend/recurrent/test_scan.py.
ADAPTED = sorted((legacy.rules.operators | meaning.rules.operators | experimental.rules.operators) - {"Scan"})
# Others, which ONNX's converter changes, in bodies too.
CONVERTED = ("Clip", "Pad", "ReduceSum", "Slice", "Softmax", "Squeeze", "TopK")
# From here on models are read as they are, and onnxruntime lacks some operators.
UNCONVERTED = 21
STRIDE = 8


def original(spelling: Spelling, opset: int) -> Any:
    """Return what onnxruntime computes of the model; None where it cannot."""
    try:
        return OnnxSession(spelling.model(opset).SerializeToString(), threads=1).run_values(spelling.feed)[0]
    except RunError:
        return None


ALL = [spelling for found in BY_OPERATOR.values() for spelling in found]


def expected(spelling: Spelling, opset: int) -> Any:
    if spelling.expected is None:
        return original(spelling, opset)
    return np.asarray(spelling.expected(*spelling.feed.values()))


def assert_same(actual: Any, wanted: Any, what: str) -> None:
    assert (actual.dtype, actual.shape) == (wanted.dtype, wanted.shape), what
    np.testing.assert_allclose(actual, wanted, rtol=1e-3, atol=1e-5, err_msg=what)


def check(spelling: Spelling, opset: int, within: str = "") -> None:
    wanted, what = expected(spelling, opset), f"{spelling.node} of opset {opset}"
    assert wanted is not None, f"onnxruntime does not compute {what}"
    model = spelling.model(opset, within=within)
    feed = spelling.feed | ({"go": np.ones((), bool)} if within == "If" else {})
    assert_same(Predictor(to_netdef(model)).run(feed)["y"], wanted, what)
    if opset < UNCONVERTED or original(spelling, opset) is not None:
        assert_same(np.asarray(prepare(model).run(feed)[0]), wanted, what)


@pytest.mark.parametrize("operator", ADAPTED)
def test_what_has_an_adapter(operator: str) -> None:
    for spelling in BY_OPERATOR[operator]:
        check(spelling, spelling.first)


@pytest.mark.slow
@pytest.mark.parametrize("operator", BY_OPERATOR)
def test_each_side_of_each_change(operator: str) -> None:
    sides = [
        (spelling, opset)
        for spelling in BY_OPERATOR[operator]
        for opset in spelling.opsets()
        if opset != spelling.first or operator not in ADAPTED  # which is tested above
    ]
    for spelling, opset in share(sides, STRIDE, name=lambda side: f"{side[0].node} {side[0].first} {side[1]}"):
        check(spelling, opset)


@pytest.mark.slow
@pytest.mark.parametrize("within", ["If", "function"])
@pytest.mark.parametrize("operator", sorted({*ADAPTED, *CONVERTED}))
def test_in_bodies(operator: str, within: str) -> None:
    every = BY_OPERATOR[operator]
    for spelling in share(every, STRIDE, name=lambda spelling: f"{spelling.node} {spelling.first} {within}"):
        check(spelling, spelling.first, within)


@pytest.mark.slow
@pytest.mark.oracle
def test_in_real_caffe2() -> None:
    runs = []
    for spelling in ALL:
        net = to_netdef(spelling.model(spelling.first))
        runs.append(OracleRun(net.predict_net, spelling.feed, net.init_net, ["y"]))
    for spelling, result in zip(ALL, run_oracle(runs), strict=True):
        what = f"{spelling.node} of opset {spelling.first}"
        assert result.error == "", what
        assert_same(result.outputs["y"], expected(spelling, spelling.first), what)


REFUSED = {
    "y = Tile(x, n, a)": ("float[2,3] x, float[1] n, float[1] a", 5, "must be constant"),
    "y = Split(x, s)": ("float[2,3] x, float[2] s", 1, "must be constant"),
    "y = LpPool<p = 1.5, kernel_shape = [2]>(x)": ("float[1,2,3] x", 1, "must be an integer, not 1.5"),
    'y = Cast<to = "BYTES">(x)': ("float[2,3] x", 5, "'BYTES', which is not an element type"),
    "y = Add<broadcast = 1, axis = 2>(x, z)": ("float[2,3,4] x, float[3,4] z", 6, "2 dims from axis 2"),
    "y = BatchNormalization<is_test = 0>(x, s, s, s, s)": ("float[1,2,3] x, float[2] s", 6, "'is_test' is 0"),
    "y = Crop<border = [1, 2]>(x)": ("float[1,2,3,4] x", 7, "'border' must have 4 elements, not 2"),
    "y = Crop<border = [1, 2, 3, 4], scale = [1]>(x)": ("float[1,2,9,9] x", 7, "'scale' must have 2 elements, not 1"),
}


@pytest.mark.parametrize("node", REFUSED)
def test_what_cannot_be_converted_is_an_error_of_the_node(node: str) -> None:
    inputs, opset, reason = REFUSED[node]
    text = f'<ir_version: 3, opset_import: ["": {opset}]> g ({inputs}) => (float y, float u) {{ u = Neg(x) {node} }}'
    with pytest.raises(ConversionError) as caught:
        to_netdef(parser.parse_model(text))
    (found,) = caught.value.findings
    assert (found.code, found.location.index) == ("opset", 1)
    assert reason in found.reason
    assert "--foreign carry" in found.hint


def test_what_onnx_does_not_convert_is_an_error_of_the_node_in_words_of_ours() -> None:
    graph = "g (float[2] x) => (float[2] y) { u = Upsample(x, x) y = Foo(u) }"
    text = f'<ir_version: 4, opset_import: ["": 9]> {graph}'
    with pytest.raises(ConversionError) as caught:
        to_netdef(parser.parse_model(text))
    (found,) = caught.value.findings
    assert (found.code, found.location.index, found.location.op_type) == ("opset", 1, "Foo")
    assert "does not know the operator" in found.reason
    assert not any(part in found.reason for part in ("Assert", ".h:", ".cc:", "%s"))
    assert to_netdef(parser.parse_model(text), foreign="carry").predict_net.op[1].type == "Foo"


def test_ranks_are_inferred_through_old_nodes() -> None:
    text = """<ir_version: 3, opset_import: ["": 6]> g (float[2,3,4,4] x, float[3] s, bool[3] b) => (bool y) {
      a = Add<axis = 1, broadcast = 1>(x, s)
      c = Less<axis = 1, broadcast = 1>(a, s)
      y = And<axis = 1, broadcast = 1>(c, b)
    }"""
    x, s, b = np.arange(96, dtype=np.float32).reshape(2, 3, 4, 4), np.ones(3, np.float32), np.array([1, 0, 1], bool)
    y = Predictor(to_netdef(parser.parse_model(text))).run({"x": x, "s": s, "b": b})["y"]
    slope, chosen = s.reshape(3, 1, 1), b.reshape(3, 1, 1)
    np.testing.assert_array_equal(y, (x + slope < slope) & chosen)


def test_a_gru_keeps_its_direction() -> None:
    fed = (("x", 6, (3, 1, 2)), ("w", 12, (1, 6, 2)), ("r", 12, (1, 6, 2)))

    def result(opset: int, direction: str) -> Any:
        node = f'y, h = GRU<hidden_size = 2, direction = "{direction}">(x, w, r)'
        inputs = "float[3,1,2] x, float[1,6,2] w, float[1,6,2] r"
        text = f'<ir_version: 3, opset_import: ["": {opset}]> g ({inputs}) => (float[3,1,1,2] y) {{ {node} }}'
        feed = {name: np.linspace(-1, 1, size).reshape(dims).astype(np.float32) for name, size, dims in fed}
        return Predictor(to_netdef(parser.parse_model(text))).run(feed)["y"]

    backwards = result(7, "reverse")
    np.testing.assert_array_equal(result(2, "reverse"), backwards)
    np.testing.assert_array_equal(result(2, "foward"), result(7, "forward"))
    assert (result(7, "forward") != backwards).any()

"""States of loops whose bodies declare the shape of the initial value, as exporters of traced loops do."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from conformance.oracle import OracleRun, run_oracle
from onnx import parser
from onnx.reference import ReferenceEvaluator

from caffe2_backend import Predictor, to_netdef
from caffe2_backend.onnx_backend import prepare

F = np.float32
YES = np.ones((), bool)
Y0 = np.array([5])
# The graph, its inputs; each body's formals and results have the shapes of the first iteration.
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "shape of a list that grows": (
        """(int64[1] y0) => (int64[N] y, int64[K,1] q) <int64 n = {3}, bool c = {1}> {
        y, q = Loop(n, c, y0) <body = b (int64 i, bool k, int64[1] s) => (bool k2, int64[2] t, int64[1] r) {
          k2 = Identity(k) one = Constant<value = int64[1] {7}>() t = Concat<axis = 0>(s, one) r = Shape(s) }> }""",
        {"y0": Y0},
    ),
    "doubled, and read after the loop": (
        """(float[1,1] y0) => (int64[2] z) <int64 n = {3}, bool c = {1}> {
        y = Loop(n, c, y0) <body = b (int64 i, bool k, float[1,1] s) => (bool k2, float[1,1] t) {
          k2 = Identity(k) h = Shape(s) e = ConstantOfShape<value = float[1] {9}>(h) t = Concat<axis = 0>(s, e) }>
        z = Shape(y) }""",
        {"y0": np.ones((1, 1), F)},
    ),
    "one dim of two": (
        """(float[2,3] y0) => (int64[2] z) <int64 n = {4}, bool c = {1}> {
        y = Loop(n, c, y0) <body = b (int64 i, bool k, float[2,3] s) => (bool k2, float[2,3] t) {
          k2 = Identity(k) m = Neg(s) t = Concat<axis = 1>(s, m, s) }>
        z = Shape(y) }""",
        {"y0": np.ones((2, 3), F)},
    ),
    "a loop that begins with what another one let grow": (
        """(int64[1] y0) => (int64[N] q, int64[K,1] r) <int64 n = {3}, bool c = {1}> {
        y = Loop(n, c, y0) <body = b (int64 i, bool k, int64[1] s) => (bool k2, int64[2] t) {
          k2 = Identity(k) t = Concat<axis = 0>(s, s) }>
        p = Neg(y)
        q, r = Loop(n, c, p) <body = d (int64 j, bool l, int64[1] u) => (bool l2, int64[1] v, int64[1] w) {
          l2 = Identity(l) w = Shape(u) v = Mul(u, w) }> }""",
        {"y0": Y0},
    ),
    "in an If, in a Loop": (
        """(int64[1] y0, bool d) => (int64[N] y, int64[K,1] q) <int64 n = {2}, bool c = {1}> {
        y, q = Loop(n, c, y0) <body = b (int64 i, bool k, int64[1] s) => (bool k2, int64[1] t, int64[1] r) {
          k2 = Identity(k) r = Shape(s)
          t = If(d) <then_branch = th () => (int64[1] u) {
              u = Loop(n, c, s) <body = l (int64 j, bool p, int64[1] v) => (bool p2, int64[2] w) {
                p2 = Identity(p) g = Shape(v) w = Concat<axis = 0>(v, g) }> },
            else_branch = el () => (int64[1] o) { e = Shape(s) o = Concat<axis = 0>(e, s) }> }> }""",
        {"y0": Y0, "d": YES},
    ),
    "greedy decoding": (
        """(int64[1] y0, float[4,4] m) => (int64[N] y) <int64 n = {5}, bool c = {1}, int64[1] last = {-1}> {
        y = Loop(n, c, y0) <body = b (int64 i, bool k, int64[1] s) => (bool k2, int64[2] t) {
          k2 = Identity(k) h = Shape(s) one = Constant<value = int64[1] {1}>() f = Sub(h, one)
          w = Gather<axis = 0>(s, f) row = Gather<axis = 0>(m, w) best = ArgMax<axis = 1, keepdims = 0>(row)
          t = Concat<axis = 0>(s, best) }> }""",
        {"y0": np.array([2]), "m": np.eye(4, dtype=F)[[1, 3, 0, 2]]},
    ),
    "scan of other sizes": (
        """(float[1] z, float[3,1] x) => (float[1] y, float[3,1] s) {
        y, s = Scan<num_scan_inputs = 1, body = b (float[4] h, float[7] r) => (float[1] h2, float[1] o) {
          h2 = Add(h, r) e = Shape(r) o = Cast<to = 1>(e) }>(z, x) }""",
        {"z": np.ones(1, F), "x": np.ones((3, 1), F)},
    ),
    "intermediate values and branches of other sizes": (
        """(float[A,B] x, bool d) => (int64[2] z) <float[C,D] u, float[1,1] v> {
        u = Neg(x)
        v = If(d) <then_branch = th () => (float[1,1] p) { p = Exp(u) },
                else_branch = el () => (float[1,1] q) { q = Abs(u) }>
        z = Shape(v) }""",
        {"x": np.ones((2, 3), F), "d": YES},
    ),
}

# Whose rank Caffe2's operators would have to know.
CARRIED = {
    "rank that grows": (
        """(float[2] y0) => (int64[R] z) <int64 n = {2}, bool c = {1}, int64[1] a = {0}> {
        y = Loop(n, c, y0) <body = b (int64 i, bool k, float[2] s) => (bool k2, float[1,2] t) {
          k2 = Identity(k) t = Unsqueeze(s, a) }>
        z = Shape(y) }""",
        {"y0": np.ones(2, F)},
    ),
}


def model_of(name: str, opset: int = 17) -> onnx.ModelProto:
    text, _ = (CASES | CARRIED)[name]
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> g {text}')


def expected(name: str) -> list[Any]:
    _, feed = (CASES | CARRIED)[name]
    return list(ReferenceEvaluator(model_of(name)).run(None, feed))


@pytest.mark.parametrize("opset", [13, 17, 21])
@pytest.mark.parametrize("name", CASES | CARRIED)
def test_carried(name: str, opset: int) -> None:
    _, feed = (CASES | CARRIED)[name]
    for ours, theirs in zip(prepare(model_of(name, opset)).run(feed), expected(name), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("opset", [13, 17, 21])
@pytest.mark.parametrize("name", CASES)
def test_with_caffe2s_operators_alone(name: str, opset: int) -> None:
    outputs = Predictor(to_netdef(model_of(name, opset))).run(CASES[name][1])
    for ours, theirs in zip(outputs.values(), expected(name), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.oracle
def test_in_real_caffe2() -> None:
    models = {name: to_netdef(model_of(name)) for name in CASES}
    runs = [
        OracleRun(net.predict_net, CASES[name][1], net.init_net, list(net.predict_net.external_output))
        for name, net in models.items()
    ]
    for name, run, result in zip(models, runs, run_oracle(runs), strict=True):
        assert result.error == "", name
        for output, theirs in zip(run.outputs or (), expected(name), strict=True):
            np.testing.assert_array_equal(result.outputs[output], theirs, err_msg=name)

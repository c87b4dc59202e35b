"""Slices, pads and sizes that are computed at run time, of which single elements are known: short nets, equal results.

Modules: elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser
from support.strict_import import comparison

from caffe2_backend import Predictor, to_netdef
from caffe2_backend.runtime.sessions.onnx_session import OnnxSession

LISTS = """<int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] three = {3}, int64[1] four = {4},
  int64[4] zeros = {0, 0, 0, 0}, int64[2] both = {-1, 2}, int64[1] back = {-1}, int64[2] hw = {6, 9},
  int64[1] least = {-9223372036854775807}, float[2] ones = {1.0, 1.0}, float[2] wide = {6.0, 9.0},
  float[4] twice = {1.0, 1.0, 2.0, 0.5}>"""
ROWS, IMAGE = "float[A,B,C] x", "float[N,3,H,W] x"
SIZE = "s = Shape (x) size = Slice (s, two, three)"
# As torch.onnx exports F.pad of computed pads: axes in reverse, those before and behind in pairs.
PADS = f"""{SIZE} rest = Mod (size, three) extra = Sub (three, rest) listed = Concat <axis = 0> (one, extra, zeros)
  pairs = Reshape (listed, both) turned = Slice (pairs, back, least, zero, back)
  sides = Transpose <perm = [1, 0]> (turned) flat = Reshape (sides, back) pads = Cast <to = 7> (flat)"""
SIZES = "s = Shape (x) nc = Slice (s, zero, two) all = Concat <axis = 0> (nc, hw)"
SCALES = """s = Shape (x) n = Slice (s, two, four) f = Cast <to = 1> (n) d = Div (wide, f)
  by = Concat <axis = 0> (ones, d)"""
LINEAR = 'Resize <mode = "linear", coordinate_transformation_mode = "half_pixel">'
NEAREST = 'Resize <mode = "nearest", nearest_mode = "floor", coordinate_transformation_mode = "asymmetric">'
# (inputs, nodes, operators of the strict net)
CASES: dict[str, tuple[str, str, int]] = {
    "to the size": (ROWS, f"{SIZE} y = Slice (x, one, size, two)", 1),
    "to before the size": (ROWS, f"{SIZE} e = Sub (size, two) y = Slice (x, one, e, two)", 1),
    "to behind the size": (ROWS, f"{SIZE} e = Add (two, size) y = Slice (x, one, e, two)", 15),
    "behind an Identity": (ROWS, "i = Identity (x) s = Shape (i) e = Gather (s, two) y = Slice (x, zero, e, two)", 1),
    "to the size of another axis": (ROWS, f"{SIZE} y = Slice (x, one, size, one)", 13),
    "pads of one axis": (ROWS, f'{PADS} y = Pad <mode = "reflect"> (x, pads)', 40),
    "constant pads of one axis": (ROWS, f"{PADS} y = Pad (x, pads)", 30),
    "edges of one axis": (ROWS, f'{PADS} y = Pad <mode = "edge"> (x, pads)', 34),
    "resized to sizes": (IMAGE, f"{SIZES} y = {LINEAR} (x, , , all)", 66),
    "resized by computed scales": (IMAGE, f"{SCALES} y = {LINEAR} (x, , by)", 87),
    "resized by known scales": (IMAGE, f"y = {LINEAR} (x, , twice)", 76),
    "resized to the nearest": (IMAGE, f"{SIZES} y = {NEAREST} (x, , , all)", 42),
}


def model_of(name: str) -> onnx.ModelProto:
    inputs, body, _ = CASES[name]
    return parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 21]> g ({inputs}) => (float y) {LISTS} {{ {body} }}'
    )


def feeds(name: str) -> list[dict[str, Any]]:
    shapes = [(2, 3, 4, 5), (1, 3, 7, 2)] if CASES[name][0] == IMAGE else [(2, 5, 9), (1, 6, 4), (3, 4, 5)]
    return [{"x": np.random.default_rng(0).normal(size=shape).astype(np.float32)} for shape in shapes]


@pytest.mark.parametrize("name", CASES)
def test_what_is_known_makes_nets_shorter(name: str) -> None:
    model = model_of(name)
    net = to_netdef(model)
    assert len(net.predict_net.op) <= CASES[name][2]
    session, predictor = OnnxSession(model.SerializeToString()), Predictor(net)
    for feed in feeds(name):
        np.testing.assert_allclose(predictor.run(feed)["y"], session.run_values(feed)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.oracle
def test_in_real_caffe2() -> None:
    with comparison() as check:
        for name, (inputs, body, _) in CASES.items():
            check(inputs, "float y", body, feeds(name), head=LISTS)

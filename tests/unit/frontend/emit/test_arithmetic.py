"""Reshapes to the shape of another tensor, also of tensors without elements, at every opset."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator
from support.exports import Specs, dims, node_types, run, specs_of

from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx

SHAPES = [((0, 3), (3, 0)), ((0,), (2, 0)), ((4, 0), (0,)), ((2, 3), (3, 2)), ((6,), (2, 3)), ((0, 2, 3), (5, 0, 7))]


@pytest.mark.parametrize("opset", [9, 11, 13, 14, 21])
@pytest.mark.parametrize("sizes", [True, False])
@pytest.mark.parametrize(("before", "after"), SHAPES)
def test_elements_get_another_shape(
    before: tuple[int, ...], after: tuple[int, ...], opset: int, *, sizes: bool
) -> None:
    inputs = {"x": np.arange(np.prod(before), dtype=np.float32).reshape(before), "like": np.zeros(after, np.float32)}
    net = NetDef(op=[operator("ResizeLike", ["x", "like"], ["y"])])
    model = to_onnx(net, inputs=specs_of(inputs, sizes=sizes), outputs=["y"], opset=opset)
    (y,) = run(model, {value.name: inputs[value.name] for value in model.graph.input})
    np.testing.assert_array_equal(y, inputs["x"].reshape(after))


def test_examples_without_lists() -> None:
    names = ["l0", "v0", "l1", "v1"]
    inputs: Specs = {**dict.fromkeys(names, ("int32", (None,))), "dY": ("float32", (None,))}
    op = operator("MergeMultiListFeatureTensorsGradient", list(inputs), ["d0", "d1"])
    model = to_onnx(NetDef(op=[op]), inputs=inputs, outputs=["d0", "d1"])
    feeds = {name: np.zeros(0, np.int32) for name in names}
    assert [y.shape for y in run(model, {**feeds, "dY": np.zeros(0, np.float32)})] == [(0,), (0,)]


@pytest.mark.parametrize(
    ("x", "expected"), [(("N", 2, 3), False), (("M", 2, 3), True), ((6, "N"), True), (("N", "C", 3), False)]
)
def test_zeros_are_named_only_where_they_may_differ(x: tuple[int | str, ...], *, expected: bool) -> None:
    """Check that a dim of both shapes is copied, which needs no If before opset 14."""
    specs: Specs = {"x": ("float32", x), "like": ("float32", ("N", 6))}
    net = NetDef(op=[operator("ResizeLike", ["x", "like"], ["y"])])
    model = to_onnx(net, inputs=specs, outputs=["y"], opset=13)
    assert ("If" in node_types(model.graph)) is expected
    assert dims(model) == ["N", 6]

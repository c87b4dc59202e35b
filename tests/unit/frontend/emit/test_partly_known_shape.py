"""Shapes of which single dims are known: what torch's ``view`` becomes in Caffe2."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from conformance.recording import operator
from support.exports import Specs, dims, node_types, run

from caffe2_bridge.graph_edit import construct_init_net_from_params
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx

IMAGE: Specs = {"x": ("float32", ("N", 12, 4, 5))}
OPEN: Specs = {"x": ("float32", ("N", 12, "H", "W"))}
_PARAMETERS = {name: np.array([number], np.int64) for name, number in {"rest": -1, "two": 2, "three": 3}.items()}


def view(*parts: int | str, inputs: Specs) -> onnx.ModelProto:
    """Return ``x.view(...)`` as PyTorch's Caffe2 backend writes it, of parameters and sizes of x, given by axes."""
    ops = [operator("Shape", ["x"], ["shape"])]
    for axis in {part for part in parts if isinstance(part, int)}:
        ops += [
            operator("Gather", ["shape", f"axis{axis}"], [f"n{axis}"]),
            operator("ExpandDims", [f"n{axis}"], [f"d{axis}"], dims=[0]),
        ]
    names = [f"d{part}" if isinstance(part, int) else part for part in parts]
    ops += [
        operator("Concat", names, ["dims", "_"], axis=0),
        operator("Reshape", ["x", "dims"], ["y", "old"]),
    ]
    axes = {f"axis{axis}": np.array(axis, np.int64) for axis in range(4)}
    init = construct_init_net_from_params({**_PARAMETERS, **axes})
    return to_onnx(NetDef(name="view", op=ops), init, inputs=inputs, outputs=["y"])


@pytest.mark.parametrize(
    ("parts", "inputs", "expected"),
    [
        ((0, "rest", "three"), IMAGE, ["N", 80, 3]),
        ((0, "rest"), IMAGE, ["N", 240]),
        ((0, "three", "rest", 2, 3), IMAGE, ["N", 3, 4, 4, 5]),
    ],
)
def test_a_view_is_one_reshape_with_its_dims(
    parts: Sequence[int | str], inputs: Specs, expected: list[int | str]
) -> None:
    model = view(*parts, inputs=inputs)
    assert [*node_types(model.graph)] == ["Reshape"]
    assert dims(model) == expected
    x = np.random.default_rng(0).random((2, 12, 4, 5), np.float32)
    (y,) = run(model, {"x": x})
    np.testing.assert_array_equal(y, x.reshape([2, *expected[1:]]))
    (empty,) = run(model, {"x": x[:0]})
    assert list(empty.shape) == [0, *expected[1:]]


def test_a_view_of_an_image_of_unknown_size_is_one_reshape() -> None:
    model = view(0, "rest", "three", inputs=OPEN)
    assert [*node_types(model.graph)] == ["Reshape"]
    assert dims(model)[::2] == ["N", 3]
    (y,) = run(model, {"x": np.zeros((2, 12, 4, 5), np.float32)})
    assert y.shape == (2, 80, 3)


@pytest.mark.parametrize(
    ("shape", "given", "types", "expected"),
    [
        ([0, 1, -1, 3], ("T", "N", 3), ["Unsqueeze"], ["T", 1, "N", 3]),
        ([0, 1, -1], ("T", "N", 1), ["Squeeze", "Unsqueeze"], ["T", 1, "N"]),
        ([0, -1], ("N", "D"), ["Reshape"], ["N", "D"]),
    ],
)
def test_dims_of_1_are_inserted_and_removed(
    shape: Sequence[int], given: Sequence[int | str], types: Sequence[str], expected: Sequence[int | str]
) -> None:
    """Try a sequence without steps too, whose other dims stay."""
    ops = [operator("Reshape", ["x"], ["z", "old"], shape=shape), operator("Relu", ["z"], ["y"])]
    model = to_onnx(NetDef(name="net", op=ops), inputs={"x": ("float32", tuple(given))}, outputs=["y"])
    assert [*node_types(model.graph)] == [*types, "Relu"]
    assert dims(model) == expected
    sizes = {"T": 0, "N": 2, "D": 5}
    (y,) = run(model, {"x": np.zeros([sizes.get(str(dim), dim) for dim in given], np.float32)})
    assert list(y.shape) == [sizes.get(str(dim), dim) for dim in expected]


def test_sizes_at_other_positions_are_read_when_the_model_runs() -> None:
    model = view(3, 2, "rest", inputs=OPEN)
    assert sorted(node_types(model.graph)) == ["Concat", "Reshape", "Shape", "Shape"]
    x = np.random.default_rng(0).random((2, 12, 4, 5), np.float32)
    np.testing.assert_array_equal(run(model, {"x": x})[0], x.reshape(5, 4, 24))


def test_a_computed_size_is_read_when_the_model_runs() -> None:
    ops = [
        operator("Shape", ["x"], ["shape"]),
        operator("Slice", ["shape"], ["n"], starts=[0], ends=[1]),
        operator("Mul", ["n", "two"], ["double"]),
        operator("Concat", ["double", "rest"], ["dims", "_"], axis=0),
        operator("Reshape", ["x", "dims"], ["y", "old"]),
    ]
    init = construct_init_net_from_params(_PARAMETERS)
    model = to_onnx(NetDef(name="view", op=ops), init, inputs=OPEN, outputs=["y"])
    assert sorted(node_types(model.graph)) == ["Concat", "Mul", "Reshape", "Shape", "Slice"]
    (y,) = run(model, {"x": np.zeros((2, 12, 4, 5), np.float32)})
    assert y.shape == (4, 120)


def test_numbers_that_are_not_sizes_keep_their_meaning() -> None:
    """Take an input among the dims, which may be 0 or -1."""
    ops = [
        operator("Concat", ["n", "three"], ["dims", "_"], axis=0),
        operator("Reshape", ["x", "dims"], ["y", "old"]),
    ]
    init = construct_init_net_from_params(_PARAMETERS)
    inputs: Specs = {"x": ("float32", ("N", "D")), "n": ("int64", (1,))}
    model = to_onnx(NetDef(name="view", op=ops), init, inputs=inputs, outputs=["y"])
    for given, rows in ((0, 4), (-1, 4), (4, 4)):
        (y,) = run(model, {"x": np.zeros((4, 3), np.float32), "n": np.array([given], np.int64)})
        assert y.shape == (rows, 3)


def test_scales_that_are_sliced_of_a_parameter_are_known() -> None:
    """Export a nearest Upsample of PyTorch, as its Caffe2 backend writes it."""
    ops = [
        operator("Slice", ["scales"], ["s"], starts=[2], ends=[-1]),
        operator("ResizeNearest", ["x", "s"], ["y"]),
    ]
    init = construct_init_net_from_params({"scales": np.array([1, 1, 2, 3], np.float32)})
    model = to_onnx(NetDef(name="up", op=ops), init, inputs=OPEN, outputs=["y"])
    assert [*node_types(model.graph)] == ["Resize"]
    x = np.random.default_rng(0).random((1, 12, 2, 2), np.float32)
    np.testing.assert_array_equal(run(model, {"x": x})[0], x.repeat(2, 2).repeat(3, 3))

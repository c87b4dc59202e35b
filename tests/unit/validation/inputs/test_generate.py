"""Sizes that a model fixes, and weights that it lacks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from conformance.recording import operator
from support.cells import fills

from caffe2_backend import validate
from caffe2_bridge import ConversionError, Model, RunError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_validation import run_validation
from caffe2_validation.comparison.random_operators import random_values
from caffe2_validation.forms import Forms
from caffe2_validation.inputs.generate import generate, missing_weights
from caffe2_validation.inputs.random_values import Scene, draw
from caffe2_validation.options import ValidationOptions
from caffe2_validation.roles import Role
from caffe2_validation.sizes import SIZES

SIDES = ("workspace", "onnxruntime-cpu")


def net(ops: Sequence[OperatorDef], inputs: Sequence[str], outputs: Sequence[str] = ("y",)) -> NetDef:
    return NetDef(name="n", op=ops, external_input=inputs, external_output=outputs)


def classifier(window: int = 2) -> Model:
    ops = [
        operator("Conv", ["x", "conv_w", "conv_b"], ["h"], kernel=3, stride=2, order="NCHW"),
        operator("SpatialBN", ["h", "scale", "bias", "mean", "var"], ["h"], is_test=1, order="NCHW"),
        operator("Relu", ["h"], ["h"]),
        operator("Conv", ["h", "deep_w"], ["d"], kernel=3, group=16, order="NCHW"),
        operator("AveragePool", ["d"], ["p"], kernel=window, stride=1, order="NCHW"),
        operator("FC", ["p", "fc_w", "fc_b"], ["y"]),
    ]
    weights = ["conv_w", "conv_b", "scale", "bias", "mean", "var", "deep_w", "fc_w", "fc_b"]
    return Model.of(net(ops, ["x", *weights]))


def test_without_weights_a_net_is_refused_with_the_way_out() -> None:
    assert missing_weights(classifier())[:2] == ("conv_w", "conv_b")
    with pytest.raises(RunError, match=r"weights are missing: 'conv_w'.* 6 more.*--random-weights"):
        validate(classifier(), runtimes=SIDES)


def test_weights_that_are_made_up_fit_and_keep_values_alive() -> None:
    report = validate(classifier(), runtimes=SIDES, random_weights=True, every_blob=True)
    assert report.agrees, report
    assert set(report.random_weights) == set(missing_weights(classifier()))
    made = generate(Forms(classifier()), options=ValidationOptions(seed=1, sizes=SIZES, random_weights=True))
    params = made.forms.net.params
    assert params["conv_w"].shape == (16, 3, 3, 3)
    assert params["deep_w"].shape == (16, 1, 3, 3)
    assert params["var"].min() > 0
    assert params["fc_w"].shape[1] == 16 * 12 * 12
    again = generate(
        Forms(classifier()), options=ValidationOptions(seed=1, sizes=SIZES, random_weights=True)
    ).forms.net.params
    assert all(np.array_equal(params[name], again[name]) for name in params)
    other = generate(Forms(classifier()), options=ValidationOptions(seed=2, sizes=SIZES, random_weights=True))
    assert not np.array_equal(params["conv_w"], other.forms.net.params["conv_w"])


def test_channels_pass_a_channel_shuffle_to_its_groups() -> None:
    ops = [
        operator("Conv", ["x", "w0"], ["a"], kernel=1),
        operator("SpatialBN", ["a", "s", "b", "m", "v"], ["n"], is_test=1),
        operator("ChannelShuffle", ["n"], ["c"], group=1, kernel=1),
        operator("Conv", ["c", "w"], ["y"], kernel=3, pad=1, group=60),
    ]
    report = validate(Model.of(net(ops, ["x", "w0", "s", "b", "m", "v", "w"])), runtimes=SIDES, random_weights=True)
    assert report.agrees, report.to_json()


@pytest.mark.parametrize("group", [3, 4])
def test_a_channel_shuffle_demands_a_multiple_of_its_groups(group: int) -> None:
    ops = [
        operator("Conv", ["x", "w"], ["a"], kernel=1),
        operator("ChannelShuffle", ["a"], ["y"], group=group, kernel=1),
    ]
    report = validate(Model.of(net(ops, ["x", "w"])), runtimes=SIDES, random_weights=True)
    assert report.agrees, report.to_json()


def test_channels_that_are_no_multiple_of_the_groups_are_named() -> None:
    ops = [operator("MaxPool", ["x"], ["a"], kernel=2), operator("Conv", ["a", "w"], ["y"], kernel=3, group=7)]
    image = ValidationOptions(runtimes=SIDES, random_weights=True, described={"x": ("float32", (2, 16, 32, 32))})
    with pytest.raises(RunError, match=r"the 16 channels of 'a' are not a multiple of the 7 groups"):
        run_validation(Model.of(net(ops, ["x", "w"])), options=image)


def test_an_image_grows_until_the_window_fits() -> None:
    made = generate(
        Forms(classifier(window=40)), options=ValidationOptions(seed=1, sizes=SIZES[:1], random_weights=True)
    )
    assert made.cases[0].inputs["x"].shape == (1, 3, 224, 224)
    assert "224" in made.notes[0]


def test_a_matrix_behind_a_flatten_says_how_large_the_image_is() -> None:
    columns = 2 * 28 * 28
    ops = [
        operator("Conv", ["x", "w"], ["h"], kernel=1, order="NCHW"),
        operator("Flatten", ["h"], ["f"]),
        operator("FC", ["f", "fc_w", "fc_b"], ["y"]),
    ]
    weights = {"w": np.ones((2, 3, 1, 1)), "fc_w": np.ones((2, columns)), "fc_b": np.ones(2)}
    declared = ["x", *weights, "unread"]
    model = Model.of(net(ops, declared), fills({k: v.astype(np.float32) for k, v in weights.items()}))
    report = validate(model, runtimes=SIDES)
    assert report.agrees
    assert len(report.cases) == 3
    made = generate(Forms(model), options=ValidationOptions(seed=1, sizes=SIZES))
    assert [case.inputs["x"].shape for case in made.cases] == [(1, 3, 28, 28), (3, 3, 28, 28), (2, 3, 28, 28)]


def test_sizes_of_an_onnx_model_are_searched_for() -> None:
    graph = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 20]> g (float[N, A, B] x, float[C] z) => (float[M, 77] y, float[2, 5] v)
        <int64[2] to = {-1, 77}, int64[2] two = {2, 5}> { y = Reshape(x, to)  v = Reshape(z, two) }"""
    )
    made = generate(Forms(graph), options=ValidationOptions(seed=1, sizes=SIZES))
    for case in made.cases:
        assert case.inputs["x"].size % 77 == 0
        assert case.inputs["z"].size == 10
    assert "fixes sizes" in made.notes[0]


def test_what_no_size_helps_is_told() -> None:
    graph = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 20]> g (float[N, 2] x) => (float[5, 3] y) <int64[2] to = {5, 3}>
        { y = Reshape(x, to) }"""
    )
    made = generate(Forms(graph), options=ValidationOptions(seed=1, sizes=SIZES))
    assert "no sizes" in made.notes[0]
    assert len(made.cases) == 3


def test_an_operator_without_conversion_is_named_before_weights_are_made_up() -> None:
    ops = [operator("NeverHeardOf", ["x"], ["h"]), operator("FC", ["h", "w", "b"], ["y"])]
    with pytest.raises(ConversionError, match="NeverHeardOf"):
        validate(Model.of(net(ops, ["x", "w", "b"])), runtimes=SIDES, random_weights=True)


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        (operator("BatchMatMul", ["a", "b"], ["y"], trans_b=1), ["a", "b"]),
        (operator("Concat", ["a", "b"], ["y", "dims"], axis=3, add_axis=1), ["a", "b"]),
        (operator("ArgMin", ["a"], ["y"], axis=1), ["a"]),
        (operator("SparseToDenseMask", ["i", "v", "d"], ["y"], mask=[0, 1, 2]), ["i", "v", "d"]),
        (operator("BatchBoxCox", ["a", "l1", "l2"], ["y"]), ["a", "l1", "l2"]),
    ],
    ids=lambda value: value.type if isinstance(value, OperatorDef) else "",
)
def test_operands_of_unknown_rank_fit_each_other(op: OperatorDef, inputs: list[str]) -> None:
    report = validate(Model.of(net([op], inputs)), runtimes=SIDES)
    assert report.agrees, report


def test_boxes_lie_in_their_image() -> None:
    random, shapes = np.random.default_rng(0), {"f": (2, 8, 16, 16)}
    role = Role(kind="boxes", columns=5, parts="f", scale=0.25)
    boxes = draw(np.dtype(np.float32), (50, 5), role, random, Scene(1, 32, shapes))
    assert set(boxes[:, 0]) <= {0.0, 1.0}
    assert (boxes[:, 1:3] < boxes[:, 3:]).all()
    assert boxes.min() >= 0
    assert 32 < boxes.max() < 64


def test_regions_of_an_input_are_generated() -> None:
    op = operator("RoIAlign", ["f", "r"], ["y"], pooled_h=2, pooled_w=2, spatial_scale=0.25, sampling_ratio=2)
    made = generate(Forms(Model.of(net([op], ["f", "r"]))), options=ValidationOptions(seed=1, sizes=SIZES))
    for case in made.cases:
        regions, images = case.inputs["r"], case.inputs["f"].shape[0]
        assert regions.shape[1] == 5
        assert regions[:, 0].max() < images
        assert (regions[:, 1:3] < regions[:, 3:]).all()


def test_detections_agree_on_weights_that_are_made_up() -> None:
    ops = [
        operator("Conv", ["x", "w", "b"], ["h"], kernel=3, stride=16, pad=1, order="NCHW"),
        operator("Conv", ["h", "s_w", "s_b"], ["s"], kernel=1, order="NCHW"),
        operator("Conv", ["h", "d_w", "d_b"], ["d"], kernel=1, order="NCHW"),
        operator("Sigmoid", ["s"], ["p"]),
        operator("GenerateProposals", ["p", "d", "info", "anchor"], ["rois", "roi_p"], spatial_scale=1 / 16,
                 pre_nms_topN=50, post_nms_topN=20, nms_thresh=0.7, min_size=1.0),
    ]  # fmt: skip
    names = ["x", "w", "b", "s_w", "s_b", "d_w", "d_b", "info", "anchor"]
    model = Model.of(net(ops, names, ["rois", "roi_p"]))
    assert validate(model, runtimes=SIDES, random_weights=True).agrees
    made = generate(Forms(model), options=ValidationOptions(seed=1, sizes=SIZES[:1], random_weights=True))
    inputs, params = made.cases[0].inputs, made.forms.net.params
    assert inputs["info"].tolist() == [[inputs["x"].shape[2], inputs["x"].shape[3], 1.0]]
    assert params["s_w"].shape[0] == len(inputs["anchor"])
    assert params["d_w"].shape[0] == 4 * len(inputs["anchor"])


def test_values_drawn_at_random_are_compared_by_kind() -> None:
    ops = [
        operator("GaussianFill", ["x"], ["g"]),
        operator("Add", ["g", "x"], ["y"]),
        operator("Relu", ["x"], ["z"]),
    ]
    model = Model.of(net(ops, ["x"], ["y", "z"]))
    assert random_values(model) == {"g", "y"}
    report = validate(model, runtimes=SIDES, described={"x": ("float32", ("N", 3))})
    assert report.agrees
    assert report.notes[-1].startswith("random values, of which only shape and dtype are compared")


@pytest.mark.parametrize("op_type", ["Int8Slice", "Int8Relu", "Int8Flatten"])
def test_an_input_is_quantized_as_its_sample_is(op_type: str) -> None:
    """The only input is filled by the init net; the operator's scale must be that of what it reads."""
    scale = {"Y_scale": 0.5, "Y_zero_point": 3}
    fill = operator("Int8GivenTensorFill", [], ["w"], shape=[2, 4], values=bytes(range(8)), **scale)
    bounds = {"starts": [0, 1], "ends": [-1, 3]} if op_type == "Int8Slice" else {}
    op = operator(op_type, ["w"], ["y"], **scale, **bounds)
    model = Model.of(net([op], ["w"]), NetDef(name="init", op=[fill]))
    assert model.inputs == ("w",)
    report = validate(model, runtimes=SIDES)
    assert report.agrees, report

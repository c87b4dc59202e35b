"""What makes cases of operators on images deviate, and gradients whose operands are of other sizes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from conformance.corpus import Array
from conformance.oracle import OracleResult, OracleRun
from conformance.recording import ArgumentValue, operator

from caffe2_bridge.proto.caffe2_pb2 import NetDef
from fuzz.exact.deviations.causes import small
from fuzz.exact.deviations.forward import are_of_other_sizes
from fuzz.exact.deviations.table import deviation
from fuzz.exact.drawing.drawn import Drawn


def drawn(op_type: str, *arrays: Array, **args: ArgumentValue) -> Drawn:
    inputs = {f"x{i}": array for i, array in enumerate(arrays)}
    return Drawn(op_type, NetDef(op=[operator(op_type, list(inputs), ["y"], **args)]), inputs)


def ones(*shape: int) -> Array:
    return np.ones(shape, np.float32)


ONE = np.ones(1, np.int32)
TRUE = np.ones(1, np.bool_)
ROI = np.array([[0, 1, 1, 2, 2, 0]], np.float32)


@pytest.mark.parametrize(
    ("deviating", "ordinary"),
    [
        (
            drawn("MaxPool", ones(1, 1, 8, 15), kernel=2, stride=6, legacy_pad=3),
            drawn("MaxPool", ones(1, 1, 8, 14), kernel=2, stride=6, legacy_pad=3),
        ),
        (drawn("BatchToSpace", ones(9, 1, 1, 1)), drawn("BatchToSpace", ones(8, 1, 1, 1))),
        (
            drawn("PadImage", ones(1, 1, 2, 1), mode="reflect", pads=[0, 0, 0, 1]),
            drawn("PadImage", ones(1, 1, 2, 1), mode="reflect", pads=[1, 0, 1, 0]),
        ),
        (
            drawn("PadImageGradient", ones(1, 1, 4, 3), mode="reflect", pads=[1, 1, 1, 1]),
            drawn("PadImageGradient", ones(1, 1, 4, 4), mode="reflect", pads=[1, 1, 1, 1]),
        ),
        (drawn("RoIAlignRotated", ones(1, 1, 3, 3), -ROI - 1), drawn("RoIAlignRotated", ones(1, 1, 3, 3), ROI)),
        (drawn("CollectRpnProposals", ones(2, 7), ones(2)), drawn("CollectRpnProposals", ones(2, 5), ones(2))),
        (
            drawn("BatchPermutation", ones(2, 1), np.array([0, 2], np.int32)),
            drawn("BatchPermutation", ones(2, 1), np.array([0, 1], np.int32)),
        ),
        (
            drawn("MergeMultiListFeatureTensors", ONE, ONE, ONE + 1, ones(1)),
            drawn("MergeMultiListFeatureTensors", ONE, ONE, ONE + 1, ones(2)),
        ),
        (
            drawn("MergeSingleListFeatureTensors", ONE + 1, ones(1), TRUE, ONE, ones(1), TRUE),
            drawn("MergeSingleListFeatureTensors", ONE + 1, ones(1), ~TRUE, ONE, ones(2), TRUE),
        ),
        (
            drawn("MergeSingleMapFeatureTensors", ONE + 1, ONE, ONE, TRUE),
            drawn("MergeSingleMapFeatureTensors", ONE, ONE, ONE, TRUE),
        ),
        (
            drawn("MergeMultiScalarFeatureTensors", ONE, ONE, ones(1), np.zeros(2, np.int32), ONE[:0], ones(0)),
            drawn("MergeMultiScalarFeatureTensors", ONE, ONE, ones(1), np.zeros(1, np.int32), ONE[:0], ones(0)),
        ),
    ],
)
def test_operands_of_which_caffe2_reads_out_of_bounds(deviating: Drawn, ordinary: Drawn) -> None:
    assert deviation(deviating, {}, {})
    assert not deviation(ordinary, {}, {})


def test_gradients_that_are_divided_by_nearly_zero() -> None:
    def divided(result: float) -> Drawn:
        return drawn("LpPoolGradient", ones(1, 1, 1, 1), ones(1, 1, 1, 1) * result, ones(1, 1, 1, 1), kernel=1)

    assert deviation(divided(1e-40), {"y": ones(1)}, {"y": ones(1)})
    assert not deviation(divided(1e-30), {"y": ones(1)}, {"y": ones(1)})


def test_scores_and_boxes_that_leave_an_order_or_an_overlap_open() -> None:
    def proposals(scores: list[float], width: float) -> Drawn:
        array = np.array(scores, np.float32).reshape(1, 1, 1, 2)
        anchors = np.array([[0, 0, width, 2, 0]], np.float32)
        return drawn("GenerateProposals", array, ones(1, 5, 1, 2), ones(1, 3), anchors)

    expected, actual = {"y": ones(2, 6)}, {"y": ones(1, 6)}
    assert deviation(proposals([0, 0], 2), expected, actual)
    assert deviation(proposals([0, 1], 0), expected, actual)
    assert not deviation(proposals([0, 1], 2), expected, actual)


def test_a_variance_may_differ_by_rounding_errors_of_squares() -> None:
    case = drawn("Moments", 1000 + ones(2, 3))
    assert deviation(case, {"y": ones(1)}, {"y": ones(1) - 0.5})
    assert not deviation(case, {"y": ones(1)}, {"y": ones(1) + 20})


def test_large_elements_become_small() -> None:
    array = np.array([3e38, -1e30, np.inf, np.nan, 2], np.float32)
    np.testing.assert_array_equal(small(array), np.array([10, -10, np.inf, np.nan, 2], np.float32))
    few = ones(2)
    assert small(few) is few


def test_operands_of_gradients_have_the_sizes_of_the_forward_operator() -> None:
    asked: list[OracleRun] = []

    def runs(all_runs: Sequence[OracleRun]) -> list[OracleResult | Exception]:
        asked.extend(all_runs)
        return [OracleResult({"forward/0": ones(1, 1, 2, 2)}) for _ in all_runs]

    fits = drawn("AveragePoolGradient", ones(1, 1, 4, 4), ones(1, 1, 2, 2), ones(1, 1, 2, 2), kernel=2, stride=2)
    assert not are_of_other_sizes(fits, runs)
    (asked_op,) = asked[0].net.op
    assert (asked_op.type, list(asked_op.input), [arg.name for arg in asked_op.arg]) == (
        "AveragePool",
        ["x0"],
        ["kernel", "stride"],
    )
    other = drawn("AveragePoolGradient", ones(1, 1, 4, 4), ones(1, 1, 1, 1), ones(1, 1, 1, 1), kernel=2, stride=2)
    assert are_of_other_sizes(other, runs)
    one = drawn("AveragePoolGradient", ones(1, 1, 4, 4), ones(1, 1, 1, 1), ones(1, 1, 2, 2), kernel=2, stride=2)
    assert are_of_other_sizes(one, runs)
    assert are_of_other_sizes(drawn("CopyRowsToTensorGradient", ones(2, 3)), runs) is None
    assert are_of_other_sizes(fits, lambda all_runs: [OracleResult(error="no") for _ in all_runs])
    assert not are_of_other_sizes(drawn("Relu", ones(1)), runs)


def test_operators_whose_results_are_overwritten_are_not_needed() -> None:
    fills = [operator("ConstantFill", [], outputs, shape=[1]) for outputs in (["a", "b"], ["a"])]
    relu = operator("Relu", ["a"], ["y"])
    case = Drawn("net", NetDef(op=[*fills, relu], external_output=["y"]), {})
    needed = case.needed()
    assert list(needed.net.op) == [fills[1], relu]
    assert needed.needed() is needed


def test_operators_of_bodies_that_write_nothing_that_is_read_are_not_needed() -> None:
    fills = [operator("ConstantFill", [], [name], shape=[1]) for name in ("x", "dead")]
    branch = operator("If", ["x"], ["x"], then_net=NetDef(op=fills), else_net=NetDef(op=fills[:1]))
    case = Drawn("net", NetDef(op=[branch], external_output=["x"]), {"x": ones(1)})
    needed = case.needed()
    assert [list(arg.n.op) for arg in needed.net.op[0].arg] == [fills[:1], fills[:1]]
    assert len(case.net.op[0].arg[0].n.op) == 2
    assert needed.needed() is needed


@pytest.mark.parametrize(("size", "elsewhere"), [(1, False), (np.nan, True), (3e37, True)])
def test_regions_of_a_computed_image(size: float, *, elsewhere: bool) -> None:
    ops = [operator("Relu", ["raw"], ["X"]), operator("RoIAlign", ["X", "rois"], ["Y"])]
    case = Drawn("net", NetDef(op=ops), {"raw": ones(1, 1, 3, 3), "rois": ROI * np.float32(size)})
    assert bool(deviation(case, {}, {})) == elsewhere


@pytest.mark.parametrize(("image", "elsewhere"), [(0, False), (1, True)])
def test_regions_of_a_quantized_image(image: int, *, elsewhere: bool) -> None:
    quantized = operator("Int8Quantize", ["raw"], ["X"])
    pooled = [operator("Int8RoIAlign", ["X", "rois"], ["Y"])]
    again = [operator("Int8Dequantize", ["X"], ["real"]), operator("RoIAlign", ["real", "rois"], ["Y"])]
    rois = np.array([[image, 1, 1, 2, 2]], np.float32)
    for ops in (pooled, again):
        case = Drawn("net", NetDef(op=[quantized, *ops]), {"raw": ones(1, 3, 3, 1), "rois": rois})
        assert bool(deviation(case, {}, {})) == elsewhere


def test_operands_of_a_gradient_in_a_branch_that_another_operator_makes() -> None:
    body = [operator("Relu", ["raw"], ["made"]), operator("SliceGradient", ["x", "made"], ["y"], starts=[0], ends=[2])]
    branch = operator("If", ["c", "x", "raw"], ["y"], then_net=NetDef(op=body), else_net=NetDef(op=body))
    for rows, differ in ((2, False), (3, True)):
        case = Drawn("net", NetDef(op=[branch]), {"c": np.ones(1, bool), "x": ones(4), "raw": ones(rows)})
        found = are_of_other_sizes(case, lambda runs: [OracleResult({"forward/0": ones(2)}) for _ in runs])
        assert found is differ


def test_operands_stand_where_the_form_of_a_gradient_has_them() -> None:
    asked: list[OracleRun] = []

    def runs(all_runs: Sequence[OracleRun]) -> list[OracleResult | Exception]:
        asked.extend(all_runs)
        return [OracleResult({"forward/0": ones(2, 3)}) for _ in all_runs]

    image, part = ones(4, 3), ones(2, 3)
    bounds = np.zeros(2, np.int32)
    assert are_of_other_sizes(drawn("SliceGradient", image, part, starts=[0, 0], ends=[2, -1]), runs) is False
    assert are_of_other_sizes(drawn("SliceGradient", image, bounds, bounds, part), runs) is False
    assert are_of_other_sizes(drawn("SliceGradient", image, bounds, bounds, image), runs) is True
    assert are_of_other_sizes(drawn("DivGradient", part, part, part), runs) is False
    assert are_of_other_sizes(drawn("DivGradient", part, part, ones(3), part, broadcast=1), runs) is False
    assert are_of_other_sizes(drawn("FCGradient", ones(2, 4), ones(3, 4), part), runs) is False
    read = [list(run.net.op[0].input) for run in asked]
    assert read == [
        ["x0"],
        ["x0", "x1", "x2"],
        ["x0", "x1", "x2"],
        ["x1", "x0"],
        ["x1", "x2"],
        ["x0", "x1", "forward/bias"],
    ]


def test_a_branch_that_does_not_write_what_it_lists_is_not_needed() -> None:
    body = NetDef(op=[operator("Relu", ["x"], ["other"])])
    branch = operator("If", ["c", "x"], ["y"], then_net=body)
    net = NetDef(op=[branch, operator("Copy", ["x"], ["z"])], external_output=["y", "z"])
    assert [op.type for op in Drawn("net", net, {}).needed().net.op] == ["Copy"]
    body.op[0].output[0] = "y"
    branch = operator("If", ["c", "x"], ["y"], then_net=body)
    net = NetDef(op=[branch, operator("Copy", ["x"], ["z"])], external_output=["y", "z"])
    assert [op.type for op in Drawn("net", net, {}).needed().net.op] == ["If", "Copy"]

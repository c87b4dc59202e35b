"""Deviations on operands that Caffe2 does not check: each applies to what gives it cause, and to nothing beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from conformance.recording import ArgumentValue, operator
from support.cells import Recurrent

from caffe2_bridge.proto.caffe2_pb2 import NetDef
from fuzz.exact.deviations.table import deviation
from fuzz.exact.deviations.unchecked import has_infinite_variance
from fuzz.exact.drawing.drawn import Drawn


def drawn(op_type: str, *arrays: np.ndarray[tuple[int, ...], np.dtype[np.generic]], **args: ArgumentValue) -> Drawn:
    inputs = {f"x{i}": array for i, array in enumerate(arrays)}
    return Drawn(op_type, NetDef(op=[operator(op_type, list(inputs), ["y"], **args)]), inputs)


CORES = [np.ones((2, 1, 2, 3)), np.ones((3, 3, 1, 2)), np.ones((4, 2, 2, 1))]
TRAIN: dict[str, ArgumentValue] = {"factor_i": [2, 3, 4], "factor_j": [2, 1, 2], "ranks": [1, 3, 2, 1], "emb_size": 4}
DIGITS = np.array([[1, 2, 3], [0, 0, 0]])
PRODUCTS = [np.ones((2, 2, 3)), np.ones((2, 2, 2))]


def looked_up(index: int, length: int, cores: Sequence[np.ndarray[tuple[int, ...], np.dtype[np.generic]]]) -> Drawn:
    return drawn("TTSparseLengthsSum", *cores, np.array([0, index]), np.array([length]), **TRAIN)


def train_gradient(
    lengths: list[int], digits: np.ndarray[tuple[int, ...], np.dtype[np.generic]], *, width: int = 4
) -> Drawn:
    return drawn(
        "TTSparseLengthsSumGradient", *CORES, np.array(lengths), *PRODUCTS, digits, np.ones((len(lengths), width))
    )


@pytest.mark.parametrize(
    ("case", "deviates"),
    [
        (looked_up(23, 2, CORES), False),
        (looked_up(24, 2, CORES), True),
        (looked_up(-1, 2, CORES), True),
        (looked_up(0, 1, CORES), True),
        (looked_up(0, 2, [*CORES[:2], CORES[2][:, :, :1]]), False),
        (looked_up(23, 2, [*CORES[:2], CORES[2][:, :, :1]]), True),
        (looked_up(0, 2, [*CORES[:2], CORES[2][:1, :1, :1]]), True),
        (train_gradient([1, 1], DIGITS), False),
        (train_gradient([1], DIGITS), True),
        (train_gradient([1, 1], DIGITS + 1), True),
        (train_gradient([1, 1], DIGITS, width=3), True),
        (drawn("SparseLengthsPositionalWeightedSum", np.ones((2, 2)), np.ones(2), np.ones(3), np.array([2, 1])), False),
        (drawn("SparseLengthsPositionalWeightedSum", np.ones((2, 2)), np.ones(2), np.ones(3), np.array([3])), True),
        (drawn("SparseLengthsSumSparseLookup", np.arange(3), np.array([2, 1]), np.arange(4)), False),
        (drawn("SparseLengthsSumSparseLookup", np.arange(3), np.array([1, 1]), np.arange(4)), True),
        (drawn("SparseToDenseMask", np.arange(3), np.ones(3), np.ones(()), mask=[1]), False),
        (drawn("SparseToDenseMask", np.arange(3), np.ones(3), np.ones(()), np.array([4, -1]), mask=[1]), True),
        (drawn("Int8Conv", np.ones((1, 2, 2, 3)), np.ones((1, 1, 1, 4)), np.ones(1), order="NHWC"), True),
        (drawn("Int8Conv", np.ones((1, 2, 2, 4)), np.ones((1, 1, 1, 2)), np.ones(1), order="NHWC", group=2), False),
        (drawn("Int8MaxPool", np.ones((0, 3, 3, 1)), order="NHWC", kernel=3, legacy_pad=3), False),
        (drawn("Int8MaxPool", np.ones((0, 2, 3, 1)), order="NHWC", kernel=3, legacy_pad=3), True),
        (drawn("InferenceLSTM", np.ones((4, 2, 3)), *[np.ones((1, 2, 3))] * 2), False),
        (drawn("InferenceLSTM", np.ones((4, 2, 3)), *[np.ones((1, 4, 3))] * 2), True),
        (drawn("InferenceLSTM", np.ones((4, 2, 3)), *[np.ones((1, 4, 3))] * 2, batch_first=1), False),
        (drawn("FlexibleTopKGradient", np.ones((2, 4)), np.array([2, 1]), np.ones(3), np.array([3, 0, 1])), False),
        (drawn("FlexibleTopKGradient", np.ones((2, 4)), np.array([1, 1]), np.ones(3), np.array([3, 0, 1])), True),
        (drawn("Gather", np.ones((2, 3)), np.array([[2], [-3]]), axis=1, match_outer=1), False),
        (drawn("Gather", np.ones((3, 2)), np.array([[1], [2], [1]]), axis=1, match_outer=1), True),
        (drawn("GatherByKey", np.array([0, 3, -1]), np.ones((1, 2)), np.ones((2, 2))), False),
        (drawn("GatherByKey", np.array([0, 3, -1]), np.ones((2, 2)), np.ones((1, 2))), True),
        (drawn("MergeIdLists", *[np.array([1, 2]), np.arange(3)] * 2), False),
        (drawn("MergeIdLists", np.array([1, 2]), np.arange(3), np.array([1, 2]), np.arange(2)), True),
        (drawn("RemovePadding", np.ones((4, 2)), np.array([2, 2])), False),
        (drawn("RemovePadding", np.ones((5, 2)), np.array([2, 2])), True),
        (drawn("AffineChannel", np.ones((2, 3, 4)), np.ones(3), np.ones(3)), False),
        (drawn("AffineChannel", np.ones((2, 3, 4)), np.ones(4), np.ones(4)), True),
        (drawn("AffineChannel", np.ones((2, 3, 4)), np.ones(4), np.ones(4), order="NHWC"), False),
        (drawn("BatchGatherGradient", np.ones((2, 3)), np.array([2, -3]), np.ones((2, 2))), False),
        (drawn("BatchGatherGradient", np.ones((2, 3)), np.array([3, -3]), np.ones((2, 2))), True),
        (drawn("BatchGatherGradient", np.ones((2, 3)), np.array([2]), np.ones((1, 3)), axis=0), True),
        (drawn("SparseWngrad", np.ones(()), np.ones(()), np.array([0]), np.ones(1), np.ones(1)), False),
        (drawn("SparseWngrad", np.ones(()), np.ones(()), np.array([1]), np.ones(1), np.ones(1)), True),
        (drawn("UnsortedSegmentWeightedSumGradient", np.ones(2), np.ones((2, 0)), np.array([0, 1])), False),
        (drawn("UnsortedSegmentWeightedSumGradient", np.ones(2), np.ones((1, 0)), np.array([0, 1])), True),
        (drawn("SparseUnsortedSegmentMeanGradient", np.ones((1, 3)), np.array([0, 1])), True),
        (drawn("SoftmaxWithLossGradient", np.ones((2, 3)), np.array([2, 0]), np.ones((2, 3)), np.ones(())), False),
        (drawn("SoftmaxWithLossGradient", np.ones((2, 3)), np.array([3, 0]), np.ones((2, 3)), np.ones(())), True),
        (drawn("SoftmaxWithLossGradient", np.ones((1, 2, 3)), np.array([5]), np.ones((1, 2, 3)), np.ones(())), False),
        (drawn("SoftmaxWithLossGradient", np.ones((2, 1)), np.ones((2, 1)), np.ones((2, 1)), np.ones(())), False),
        (drawn("Scatter", np.ones((2, 3)), np.array([[2]]), np.ones((1, 1))), False),
        (drawn("Scatter", np.ones((2, 3)), np.array([[2]]), np.ones((1, 1)), axis=0), True),
        (drawn("OneHot", np.array([1, 0, 3]), np.array([2])), False),
        (drawn("OneHot", np.array([1, 0, -3]), np.array([2])), True),
        (drawn("TopKGradient", np.ones((2, 1)), np.zeros((2, 1), int), np.ones((2, 3))), False),
        (drawn("TopKGradient", np.ones((2, 1)), np.zeros((2, 1), int), np.ones((2, 3)), axis=0), True),
        (drawn("Int8Conv", np.ones((1, 2, 2, 1)), np.ones((1, 1, 1, 1)), np.ones(1), order="NHWC"), False),
        (drawn("Int8Conv", np.ones((1, 2, 2, 1)), np.ones((0, 1, 1, 1)), np.ones(0)), True),
        (drawn("ConvGradient", np.ones((1, 1, 1, 1)), np.ones((1, 1, 1, 1)), np.ones((1, 1, 1, 1))), False),
        (drawn("ConvGradient", np.ones((1, 1, 1, 1)), np.ones((0, 1, 1, 1)), np.ones((1, 0, 1, 1))), True),
    ],
)
def test_a_model_may_fail_where_caffe2_reads_other_memory(case: Drawn, deviates: bool) -> None:
    assert bool(deviation(case, {}, {})) == deviates


@pytest.mark.parametrize(
    ("offsets", "dims", "deviates"),
    [
        ([0, 0, 1], (2, 3), False),
        ([1, 0, 1], (2, 3), True),
        ([-1, 0, 1], (2, 3), True),
        ([0, 0, 2], (2, 3), True),
        ([0, 0, 2], (2, 2, 3), False),
    ],
)
def test_steps_that_leave_their_sequences(offsets: list[int], dims: tuple[int, ...], *, deviates: bool) -> None:
    net = Recurrent([operator("Sum", ["x_t", "h"], ["after"])], {"h": "after"}, lengths=False).net()
    next(arg for arg in net.op[0].arg if arg.name == "link_offset").ints[:] = offsets
    case = Drawn("net", net, {"x": np.ones((4, 2, 3)), "h_0": np.ones(dims)})
    assert bool(deviation(case, {}, {})) == deviates


@pytest.mark.parametrize(
    ("box", "has_area"),
    [([1, 1, 5, 5], True), ([1, 1, 5, -20], False), ([5, 1, 4, 5], False), ([5, 9, 1, 1], False)],
)
def test_boxes_without_an_area(box: list[int], *, has_area: bool) -> None:
    result, scores = {"y": np.ones(1, np.float32)}, np.array([[0.1, 0.2], [0.3, 0.4]], np.float32)
    boxes = np.array([[0, 0, 9, 9], box], np.float32)
    assert bool(deviation(drawn("BoxWithNMSLimit", scores, np.tile(boxes, 2)), result, result)) != has_area
    images = [scores, scores, np.ones((1, 3), np.float32)]
    assert bool(deviation(drawn("GenerateProposals", *images, boxes), result, result)) != has_area


@pytest.mark.parametrize(("end", "deviates"), [(3.0, False), (1.0, True), (1.00000001, True)])
def test_regions_without_an_area(end: float, *, deviates: bool) -> None:
    result = {"y": np.ones(1, np.float32)}
    operands = np.ones((1, 1, 4, 4), np.float32), np.array([[0, 1, 1, end, 3]], np.float32)
    assert bool(deviation(drawn("RoIAlign", *operands, aligned=1), result, result)) is deviates


@pytest.mark.parametrize(
    ("bounds", "in_two", "in_one"), [([1, 2, 1], False, True), ([1, 2, 2], False, False), ([1, np.nan, 1], True, True)]
)
def test_boundaries_that_are_not_sorted(bounds: list[float], *, in_two: bool, in_one: bool) -> None:
    result = {"y": np.ones((4, 2), np.int32)}
    lengths = np.array([2, 1], np.int32)
    operands = (np.ones((4, 4), np.float32), np.array([1, 2], np.int32), np.array(bounds, np.float32), lengths)
    assert bool(deviation(drawn("BatchBucketize", *operands), result, result)) is in_two
    tables = [np.array(values, np.float32) for values in ([1.0], bounds, [1, 2], [3, 4])]
    assert bool(deviation(drawn("PiecewiseLinearTransform", *tables, binary=1), result, result)) is in_one


@pytest.mark.parametrize(
    ("axes", "keeps"), [([0, 1, 2], False), ([0, 2, 2], False), ([0, 1, 2, 1], True), ([-1, 1, -2], True)]
)
def test_axes_that_are_reduced_twice(axes: list[int], *, keeps: bool) -> None:
    result = {"y": np.ones(1, np.float32)}
    case = drawn("ReduceMax", np.ones((1, 1, 1), np.float32), axes=axes)
    assert bool(deviation(case, result, {"y": np.ones((), np.float32)})) == keeps


@pytest.mark.parametrize(("largest", "absorbs"), [(1e3, False), (65504, True)])
def test_squares_that_absorb_the_bias(largest: float, *, absorbs: bool) -> None:
    x = np.array([1, largest, 1, 1], np.float32).reshape(1, 4, 1, 1)
    case = drawn("LRN", x, size=3, alpha=0.5, beta=0.75)
    assert bool(deviation(case, {"y": x}, {"y": x + np.float32(1)})) == absorbs


@pytest.mark.parametrize(("kind", "ties", "order"), [("topk", 2, True), ("topk", 1, False), ("relu", 2, False)])
def test_the_order_of_equal_elements(kind: str, *, ties: int, order: bool) -> None:
    result = {"y": np.array([0, 1])}
    case = drawn("ATen", np.repeat(np.arange(3), ties), operator=kind)
    assert bool(deviation(case, result, {"y": np.array([1, 0])})) == order


@pytest.mark.parametrize(
    ("highest", "spacing", "equal"),
    [(1000.001, "logarithmic", True), (1001, "logarithmic", False), (1000.001, "linear", False)],
)
def test_bins_between_nearly_equal_bounds(highest: float, spacing: str, *, equal: bool) -> None:
    result = {"y": np.ones(2, np.int64)}
    numbers = np.array([1000, highest], np.float32)
    case = drawn("SelfBinningHistogram", numbers, num_bins=4, bin_spacing=spacing)
    assert bool(deviation(case, result, {"y": np.zeros(2, np.int64)})) == equal


@pytest.mark.parametrize(("longest", "beyond"), [(2, False), (3, True)])
def test_segments_longer_than_their_rows(longest: int, *, beyond: bool) -> None:
    result = {"y": np.ones((3, 0), np.float32)}
    case = drawn("UnpackSegments", np.array([1, longest], np.int32), np.ones((2, 2, 0), np.float32))
    assert bool(deviation(case, result, {"y": np.ones((2, 0), np.float32)})) == beyond


def test_the_levels_of_regions_without_an_area() -> None:
    rois, result = np.array([[0, 0, 0, 9, 9]], np.float32), {"y": np.ones(1, np.float32)}
    assert not deviation(drawn("DistributeFpnProposals", rois), result, result)
    assert deviation(drawn("DistributeFpnProposals", rois, roi_canonical_scale=-1), result, result)
    assert deviation(drawn("DistributeFpnProposals", rois * 1e30), result, result)
    assert not deviation(drawn("DistributeFpnProposals", rois, roi_canonical_scale=-1), {}, {})


@pytest.mark.parametrize("op_type", ["Int8FC", "Int8Conv", "Int8ConvTranspose"])
def test_products_that_are_shifted_out(op_type: str) -> None:
    result = {"y": np.ones(1, np.uint8)}
    one = np.ones((1, 1), np.uint8)

    def case(scale: float, engine: str = "") -> Drawn:
        made = drawn(op_type, one, one, np.ones(1, np.int32), Y_scale=scale)
        made.net.op[0].engine = engine
        return replace(made, quantized={"x0": (0.5, 0), "x1": (0.5, 0)})

    assert not deviation(case(2.0**30), result, result)
    assert deviation(case(2.0**31), result, result)
    assert not deviation(case(2.0**31, "DNNLOWP"), result, result)
    assert not deviation(case(2.0**-16, "DNNLOWP"), result, result)
    assert deviation(case(2.0**-18, "DNNLOWP"), result, result)


@pytest.mark.parametrize(("scale", "shifts"), [(2.0**30, False), (2.0**31, True)])
def test_products_of_computed_scales_that_are_shifted_out(scale: float, *, shifts: bool) -> None:
    result = {"y": np.ones(1, np.uint8)}
    ops = [operator("Int8Quantize", [name], [f"{name}q"], Y_scale=0.5) for name in ("x", "w")]
    ops.append(operator("Int8FC", ["xq", "wq", "b"], ["y"], Y_scale=scale))
    case = Drawn("net", NetDef(op=ops), {"x": np.ones((1, 1)), "w": np.ones((1, 1)), "b": np.ones(1, np.int32)})
    assert bool(deviation(case, result, result)) == shifts


@pytest.mark.parametrize(
    ("op_type", "outputs", "deviates"),
    [
        ("SubGradient", ["dC", "dB"], False),
        ("MulGradient", ["dC", "dB"], True),
        ("MulGradient", ["dA", "dC"], True),
        ("MulGradient", ["dA", "dB"], False),
        ("AffineChannelGradient", ["dC", "dscale", "dB"], True),
        ("AffineChannelGradient", ["dC"], False),
        ("DivGradient", ["dC", "dB"], False),
    ],
)
def test_gradients_that_are_overwritten_before_they_are_read(
    op_type: str, outputs: list[str], *, deviates: bool
) -> None:
    inputs = {name: np.ones(3) for name in ("dC", "A", "B")}
    case = Drawn(op_type, NetDef(op=[operator(op_type, list(inputs), outputs)]), inputs)
    assert bool(deviation(case, {"dB": np.ones(3)}, {"dB": np.zeros(3)})) is deviates


def test_the_gradient_of_a_broadcast_operand_that_overwrites_that_of_the_result() -> None:
    inputs = {"dC": np.ones((2, 3)), "A": np.ones(1), "B": np.ones((2, 3))}
    case = Drawn("SubGradient", NetDef(op=[operator("SubGradient", list(inputs), ["dC", "dB"])]), inputs)
    assert deviation(case, {"dB": np.ones(3)}, {"dB": np.zeros(3)})


def test_the_norm_of_an_infinity() -> None:
    case = drawn("ReduceL2", np.array([1, np.inf]))
    nan, infinite, one = (np.array([value]) for value in (np.nan, np.inf, 1))
    assert deviation(case, {"y": nan}, {"y": infinite})
    assert not deviation(case, {"y": nan}, {"y": one})
    assert not deviation(case, {"y": infinite}, {"y": one})


def test_gates_that_are_nearly_0() -> None:
    case = drawn("InferenceLSTM", np.array([1e9], np.float32))
    one = np.array([1000], np.float32)
    assert deviation(case, {"y": one}, {"y": one + 100})
    assert not deviation(case, {"y": one}, {"y": one + 200})
    assert not deviation(drawn("InferenceLSTM", one), {"y": one}, {"y": one + 1})


def test_features_ids_and_filters_of_other_counts() -> None:
    merged, bytes_ = "MergeDenseFeatureTensors", np.zeros((1, 3, 3, 2), np.uint8)
    assert deviation(drawn(merged, np.ones((3, 2)), np.ones((3, 2), bool), feature_ids=[1]), {}, {})
    assert not deviation(drawn(merged, np.ones((3, 2)), np.ones((3, 2), bool), feature_ids=[1, 2]), {}, {})
    assert deviation(drawn("Int8Conv", bytes_, bytes_, kernel=2), {}, {})
    assert not deviation(drawn("Int8Conv", bytes_, bytes_, kernel=3), {}, {})


@pytest.mark.parametrize(("rows", "deviates"), [(1, False), (2, True)])
def test_a_divisor_of_another_shape_that_is_overwritten(rows: int, *, deviates: bool) -> None:
    inputs = {"B": np.ones((1, 3)), "C": np.ones((rows, 3)), "dC": np.ones((rows, 3))}
    case = Drawn("DivGradient", NetDef(op=[operator("DivGradient", list(inputs), ["B", "dB"])]), inputs)
    assert bool(deviation(case, {"dB": np.ones(3)}, {"dB": np.zeros(3)})) is deviates


@pytest.mark.parametrize(("value", "deviates"), [(0.5, True), (0.4, False)])
def test_what_becomes_of_zeros_of_another_type(value: float, *, deviates: bool) -> None:
    inputs = {"X": np.ones((0, 1), np.float16), "W": np.ones((1, 1), np.float16), "dY": np.ones((0, 1), np.float16)}
    ops = [operator("FCGradient", list(inputs), ["dW", "db"]), operator("Sigmoid", ["db"], ["y"])]
    case = Drawn("net", NetDef(op=ops), inputs)
    expected = {"dW": np.zeros((1, 1), np.float32), "y": np.full(1, 0.5, np.float32)}
    actual = {"dW": np.zeros((1, 1), np.float16), "y": np.full(1, value, np.float16)}
    assert bool(deviation(case, expected, actual)) is deviates


@pytest.mark.parametrize("shown", ["scores", "y"])
@pytest.mark.parametrize(("last", "deviates"), [(2.0, True), (3.0, False)])
def test_names_of_equal_scores(shown: str, last: float, *, deviates: bool) -> None:
    ops = [operator("HSoftmaxSearch", ["x", "w", "b"], ["names", "scores"]), operator("Abs", ["scores"], ["y"])]
    case = Drawn("net", NetDef(op=ops), {"x": np.array([[1.0, 2.0]])})
    scores = np.array([[1.0, 2.0, last]], np.float32)
    expected, actual = (
        {"names": np.array([names], object), shown: scores} for names in (["a", "b", "c"], ["a", "c", "b"])
    )
    assert bool(deviation(case, expected, actual)) is deviates


@pytest.mark.parametrize(("count", "deviates"), [(3, False), (1, True)])
def test_another_number_of_probabilities(count: int, *, deviates: bool) -> None:
    operands = np.ones((1, 3, 1, 1)), np.zeros((1, 1, 1), np.int32), np.ones(count), np.ones(1)
    case = drawn("SpatialSoftmaxWithLossGradient", *operands)
    assert bool(deviation(case, {"y": np.ones(1)}, {"y": np.zeros(1)})) is deviates


@pytest.mark.parametrize(
    ("epsilon", "variance", "infinite"), [(1e-5, 1, False), (1e-5, np.inf, True), (float("inf"), 1, True)]
)
def test_infinite_variances(epsilon: float, variance: float, *, infinite: bool) -> None:
    given = [np.ones(4, np.float32)] * 3
    case = drawn(
        "SpatialBN", np.ones((1, 4, 1, 1), np.float32), *given, given[0] * np.float32(variance), epsilon=epsilon
    )
    assert has_infinite_variance(case, {}, {}) == infinite


@pytest.mark.parametrize(
    ("op", "operands", "args", "deviates"),
    [
        ("pow", [np.array([3, 0])], {"exponent": 30}, False),
        ("pow", [np.array([3, 0])], {"exponent": 40}, True),
        ("pow", [np.array([2, 0]), np.array([3, -1])], {}, True),
        ("prod", [np.full((2, 3), 1 << 8)], {}, False),
        ("prod", [np.full((2, 4), 1 << 8)], {}, True),
        ("roll", [np.ones((3, 2))], {"shifts": [2], "dims": [1]}, False),
        ("roll", [np.ones((3, 2))], {"shifts": [-3], "dims": [1]}, True),
        ("max_pool1d", [np.ones((1, 2, 4))], {"kernel_size": [4]}, False),
        ("max_pool1d", [np.ones((1, 2, 3))], {"kernel_size": [4]}, True),
    ],
)
def test_what_aten_wraps_around(
    op: str,
    operands: list[np.ndarray[tuple[int, ...], np.dtype[np.generic]]],
    args: dict[str, ArgumentValue],
    *,
    deviates: bool,
) -> None:
    result = {"y": np.ones(1, np.float32)}
    assert bool(deviation(drawn("ATen", *operands, operator=op, **args), result, result)) is deviates

"""Operands with which real Caffe2 raises, and which an exported model takes: each case was run in real Caffe2.

They go through the rules of ``operand_shapes`` and ``operand_contents``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import SessionOptions, Workspace
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.schemas import operator_schema

TABLE = np.arange(6, dtype=np.float32).reshape(3, 2)
SCORES = np.full((2, 3), 1 / 3, np.float32)


def floats(*shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.full(shape, 0.3, np.float32)


def ints(*values: int, dtype: type = np.int32) -> np.ndarray[Any, Any]:
    return np.array(values, dtype)


def longs(*values: int) -> np.ndarray[Any, Any]:
    return ints(*values, dtype=np.int64)


IDS = longs(0, -1)
TWO = ints(2)
BYTES = np.zeros((3, 2), np.uint8)
FUSED = np.zeros((3, 12), np.uint8)
FOUR = np.arange(4, dtype=np.float32)

RAISE: list[tuple[str, list[Any], str]] = [
    ("SparseLengthsSum", [TABLE, IDS, TWO], "index -1 is negative"),
    ("SparseLengthsMean", [TABLE, IDS, TWO], "index -1 is negative"),
    ("SparseLengthsWeightedSum", [TABLE, floats(2), IDS, TWO], "index -1 is negative"),
    ("SparseLengthsPositionalWeightedSum", [TABLE, floats(3), IDS, TWO], "index -1 is negative"),
    *((f"SparseLengths{kind}Fused{bits}BitRowwise", [FUSED, IDS, TWO], "index -1 is negative")
      for kind in ("Sum", "Mean") for bits in (8, 4, 2)),
    *((f"SparseLengthsWeightedSumFused{bits}BitRowwise", [FUSED, floats(2), IDS, TWO], "index -1 is negative")
      for bits in (8, 4, 2)),
    ("BatchGather", [SCORES, IDS], "index -1 is negative"),
    ("BatchGather", [SCORES, IDS + 3], "index 3 is not below 3"),
    ("SparseToDense", [IDS, floats(2, 2), TABLE], "index -1 is negative"),
    ("SoftmaxWithLoss", [SCORES, ints(0, -1)], "label -1 is negative"),
    ("SoftmaxWithLoss", [SCORES, ints(0, 3)], "label 3 is not below 3"),
    ("SoftmaxWithLoss", [SCORES, ints(0)], r"one for each of 2 rows, not of shape \[1\]"),
    ("SoftmaxWithLoss", [SCORES, ints(0, 1).reshape(1, 2)], "one for each of 2 rows"),
    ("LabelCrossEntropy", [SCORES, ints(0, -1)], "label -1 is negative"),
    ("LabelCrossEntropy", [SCORES, ints(0)], "one for each of 2 rows"),
    ("UnsortedSegmentSum", [floats(2, 2), ints(0, -1)], "index -1 is negative"),
    ("SparseUnsortedSegmentMean", [TABLE, IDS, ints(0, 1)], "index -1 is negative"),
    ("SparseSortedSegmentSum", [TABLE, IDS + 1, ints(0, 2)], "segment ids must start at 0"),
    ("SortedSegmentSum", [TABLE, ints(0, 2, 2)], "segment ids must start at 0"),
    ("SortedSegmentMean", [TABLE, ints(1, 1, 2)], "segment ids must start at 0"),
    ("SortedSegmentRangeMax", [TABLE, ints(0, 1, 0)], "segment ids must start at 0"),
    ("SegmentIdsToLengths", [ints(1, 0)], "segment ids must be sorted"),
    ("LengthsTile", [TABLE, ints(1, -1, 1)], "length -1 is negative"),
    ("LengthsTile", [TABLE, ints(1, 1)], "for 2 rows, and the data has 3"),
    ("PackSegments", [ints(2, 2), TABLE], "for 4 rows, and the data has 3"),
    ("SquaredL2Distance", [TABLE, floats(3, 1)], r"\[3, 2\] and \[3, 1\] of its inputs must be equal"),
    ("SigmoidCrossEntropyWithLogits", [TABLE, floats(1, 2)], "must be equal"),
    ("DotProduct", [TABLE, floats(3, 1)], "must be equal"),
    ("CosineSimilarity", [TABLE, floats(1, 2)], "must be equal"),
    ("L1Distance", [TABLE, floats(3, 1)], "must be equal"),
    ("CrossEntropy", [TABLE, floats(3, 1)], "must be equal"),
    ("Sum", [TABLE, TABLE, floats(3, 1)], "must be equal"),
    ("Mean", [TABLE, floats(1, 2)], "must be equal"),
    ("Where", [TABLE > 1, TABLE, floats(3, 1)], "must be equal"),
    ("ElementwiseLinear", [TABLE, floats(1, 2), floats(1, 2)], r"must have the shape \[2\]"),
    ("FC", [SCORES, floats(4, 3), floats(1)], r"the bias must have the shape \[4\], not \[1\]"),
    ("Accuracy", [SCORES, ints(0)], "as many rows"),
    ("BooleanMask", [TABLE, np.array([True, False])], "as many rows"),
    ("Where", [np.array([[True], [False], [True]]), TABLE, TABLE], "must be equal"),
    ("Conditional", [np.array([True]), TABLE, TABLE], "as many rows"),
    ("SumRelu", [TABLE, floats(1, 2)], "must be equal"),
    ("SquareRootDivide", [TABLE, floats(2)], "as many rows"),
    ("BernoulliJSD", [floats(3), floats(1)], r"as many elements, not the shapes \[3\] and \[1\]"),
    ("CosineEmbeddingCriterion", [floats(3), ints(1)], "as many elements"),
    ("MarginRankingCriterion", [floats(3), floats(3), ints(1)], "as many elements"),
    ("DotProductWithPadding", [TABLE, floats(1, 3)], "as many rows"),
    ("CrossEntropy", [SCORES, floats(2, 3) * 4], "labels must be between 0 and 1, not 1.2 to 1.2"),
    ("CrossEntropy", [SCORES, np.full((2, 3), np.nan, np.float32)], "labels must be between 0 and 1"),
    ("SpatialSoftmaxWithLoss", [floats(1, 3, 1, 2), ints(0, -2).reshape(1, 1, 2)], "label -2 is below -1"),
    ("SpatialSoftmaxWithLoss", [floats(1, 3, 1, 2), ints(0, 3).reshape(1, 1, 2)], "label 3 is not below 3"),
    ("SpatialSoftmaxWithLoss", [floats(2, 3, 1, 1), ints(0).reshape(1, 1, 1)], "must be for 2 images, not 1"),
    ("PairWiseLoss", [FOUR, floats(1)], "as many rows"),
    ("PairWiseLoss", [FOUR, FOUR, ints(1, 2)], "for 3 rows, and the data has 4"),
    ("LambdaRankNdcg", [FOUR, FOUR, ints(5, -1)], "length -1 is negative"),
    ("SparseLengthsSum", [TABLE, IDS + 1, ints(-1, 2)], "length -1 is negative"),
    ("SparseLengthsWeightedSum", [TABLE, floats(1), IDS + 1, TWO], "as many rows"),
    ("SparseLengthsSum8BitsRowwise", [BYTES, IDS, TWO, floats(3, 2)], "index -1 is negative"),
    ("SparseLengthsMean8BitsRowwise", [BYTES, IDS + 1, TWO, floats(2, 2)], "as many rows"),
    ("SparseLengthsWeightedMean8BitsRowwise", [BYTES, floats(2), IDS, TWO, floats(3, 2)], "index -1 is negative"),
    ("SparseLengthsSumSparseLookup", [IDS, TWO, ints(0, 1)], "index -1 is negative"),
    ("BatchSparseToDense", [longs(2, -1), IDS + 1, floats(2)], "length -1 is negative"),
    ("BatchDenseToSparse", [longs(1, 1), IDS + 1, TABLE], "as many rows"),
    ("BatchDenseToSparse", [longs(1, 1), IDS + 2, floats(2, 2)], "index 2 is not below 2"),
    ("BatchOneHot", [ints(0, 1).reshape(1, 2), ints(2, -1), ints(0)], "length -1 is negative"),
    ("BatchOneHot", [ints(0, 1).reshape(1, 2), TWO, ints(0, 1)], "a length for each of 2 columns, not 1"),
    ("BatchBucketOneHot", [floats(1, 2), ints(1, 2), FOUR], "for 3 rows, and the data has 4"),
    ("BatchBucketize", [TABLE, ints(0), FOUR, TWO], "for 2 rows, and the data has 4"),
    ("Percentile", [TABLE, floats(3, 2), ints(1, 1)], "for 2 rows, and the data has 3"),
    ("KeySplit", [longs(0, 3)], "key 3 is not below 1"),
    ("RemoveDataBlocks", [TABLE, IDS], "index -1 is negative"),
    ("SparseToDenseMask", [ints(1, 2), floats(1), floats()], "as many rows"),
    ("SparseToDenseMask", [ints(1, 2), floats(2, 3), floats(2)], r"must have the shape \[3\], not \[2\]"),
    ("GatherRangesToDense", [FOUR, ints(0, 2, 0).reshape(1, 1, 3)], r"the shape \[rows, 1, 2\], not \[1, 1, 3\]"),
    ("MergeIdLists", [TWO, IDS + 1, ints(1, 1), IDS + 2], "as many elements"),
    ("LengthsSum", [TABLE, ints(4, -1)], "length -1 is negative"),
    ("LengthsMax", [TABLE, ints(1, 1)], "for 2 rows, and the data has 3"),
    ("LengthsWeightedSum", [TABLE, floats(2), ints(3)], "as many rows"),
    ("LengthsGather", [TABLE, TWO, ints(0)], "for 2 rows, and the data has 3"),
    ("LengthsPad", [TABLE, TWO], "for 2 rows, and the data has 3"),
    ("SparseDropoutWithReplacement", [IDS, ints(1)], "for 1 rows, and the data has 2"),
    ("AddPadding", [TABLE, ints(4)], "for 4 rows, and the data has 3"),
    ("BooleanMaskLengths", [TWO, np.array([True])], "for 2 rows, and the data has 1"),
    ("UnpackSegments", [TWO, floats(2, 3, 2)], "as many rows"),
    ("UnpackSegments", [TWO, floats(1, 2, 2)], r"must be max_length \(3\), not 2"),
    ("SegmentIdsToLengths", [ints(-1, 1)], "segment id -1 is negative"),
    ("SortedSegmentMean", [TABLE, ints(0)], "as many rows"),
    ("SortedSegmentWeightedSum", [TABLE, floats(1), ints(0, 0, 0)], "as many rows"),
    ("UnsortedSegmentWeightedSum", [TABLE, floats(3), ints(0, -1, 0)], "index -1 is negative"),
    ("SparseSortedSegmentWeightedSum", [TABLE, floats(2), IDS, ints(0, 0)], "index -1 is negative"),
    ("SparseSortedSegmentWeightedSum", [TABLE, floats(2), IDS + 1, ints(0, 2)], "must start at 0"),
    ("SparseUnsortedSegmentWeightedSum", [TABLE, floats(2), IDS + 1, ints(0, -1)], "index -1 is negative"),
    ("SparseUnsortedSegmentSum", [TABLE, IDS + 1, ints(0)], "as many rows"),
    ("Range", [ints(0), ints(4), ints(0)], "Step size cannot be 0"),
]  # fmt: skip
# Whether operands fit depends on an argument; None where they do.
PROBABILITIES = np.array([[0.5, 0.5, 0], [0.25, 0.25, 0.5]], np.float32)
WITH_ARGS: list[tuple[str, list[Any], dict[str, Any], str | None]] = [
    ("Add", [floats(3, 1), FOUR], {"broadcast": 1}, r"\[4\] must be that of the axes from 1 of .*, \[3, 1\]"),
    ("Mul", [floats(1, 2, 3), floats(3, 2)], {"broadcast": 1, "axis": 0}, r"\[3, 2\] must be that of the axes from 0"),
    ("LT", [floats(3, 4), floats(1, 4)], {"broadcast": 1}, None),
    ("Sub", [floats(2, 3), floats(2, 1)], {"broadcast": 1}, None),
    ("Div", [floats(2, 3), floats(1)], {"broadcast": 1}, None),
    ("Add", [floats(2, 1), floats(1, 3)], {}, None),
    ("SoftmaxWithLoss", [SCORES, PROBABILITIES], {"label_prob": 1}, None),
    ("SoftmaxWithLoss", [SCORES, PROBABILITIES * 2], {"label_prob": 1}, "must add up to 1, and one row is off by 1"),
    ("SoftmaxWithLoss", [SCORES, PROBABILITIES - 0.5], {"label_prob": 1}, "must not be negative, and -0.5 is"),
    ("SoftmaxWithLoss", [SCORES, PROBABILITIES[:1]], {"label_prob": 1}, r"must have the shape \[2, 3\]"),
    ("Where", [np.array([True, False, True]), TABLE, TABLE], {"broadcast_on_rows": 1}, None),
    ("Where", [np.array([True]), TABLE, TABLE], {"broadcast_on_rows": 1}, "as many rows"),
]  # fmt: skip
# Arguments that operators need.
ARGS: dict[str, dict[str, Any]] = {
    "BatchBucketize": {"indices": [0]},
    "GatherRangesToDense": {"lengths": [2]},
    "KeySplit": {"categorical_limit": 1},
    "SparseDropoutWithReplacement": {"ratio": 0.5, "replacement_value": 0},
    "SparseToDenseMask": {"mask": [1, 2]},
    "UnpackSegments": {"max_length": 3},
    "LengthsPad": {"target_length": 4},
}
PASS: list[tuple[str, list[Any]]] = [
    ("SparseLengthsSum", [TABLE, IDS + 1, TWO]),
    ("SparseLengthsSum", [TABLE, ints(dtype=np.int64), ints(0, 0)]),
    ("SortedSegmentSum", [TABLE, ints(0, 0, 1)]),
    ("LabelCrossEntropy", [SCORES, ints(0, 1).reshape(2, 1)]),
    ("SoftmaxWithLoss", [SCORES, ints(0, 2)]),
    ("SegmentIdsToLengths", [ints(1, 3)]),
    ("FC", [SCORES, floats(4, 3), floats(4)]),
    ("SpatialSoftmaxWithLoss", [floats(1, 3, 1, 2), ints(2, -1).reshape(1, 1, 2)]),
    ("AddPadding", [TABLE, ints(2)]),
    ("KeySplit", [longs(2**53)]),
    ("CrossEntropy", [SCORES, floats(2, 3)]),
]


def workspace_of(operands: list[Any]) -> tuple[Workspace, list[str]]:
    workspace = Workspace()
    names = [f"x{index}" for index in range(len(operands))]
    for name, value in zip(names, operands, strict=True):
        workspace.feed(name, value)
    return workspace, names


def run(op_type: str, operands: list[Any], args: dict[str, Any]) -> Workspace:
    """Run an operator with as many outputs as it must have."""
    schema = operator_schema(op_type)
    assert schema is not None
    workspace, names = workspace_of(operands)
    count = next(count for count in range(9) if schema.accepts_counts(len(names), count))
    workspace.run_operator_once(operator(op_type, names, [f"y{index}" for index in range(count)], **args))
    return workspace


@pytest.mark.parametrize(("op_type", "operands", "message"), RAISE)
def test_operands_that_caffe2_refuses_raise(op_type: str, operands: list[Any], message: str) -> None:
    names = ", ".join(f"x{index}" for index in range(len(operands)))
    with pytest.raises(RunError, match=rf"\[0\] {op_type}: .*{message}.* \(inputs: {names}\)"):
        run(op_type, operands, ARGS.get(op_type, {}))


@pytest.mark.parametrize(("op_type", "operands"), PASS)
def test_operands_that_caffe2_takes_pass(op_type: str, operands: list[Any]) -> None:
    run(op_type, operands, ARGS.get(op_type, {}))


@pytest.mark.parametrize(("op_type", "operands", "args", "message"), WITH_ARGS)
def test_operands_that_fit_arguments(
    op_type: str, operands: list[Any], args: dict[str, Any], message: str | None
) -> None:
    if message is None:
        run(op_type, operands, args)
        return
    with pytest.raises(RunError, match=message):
        run(op_type, operands, args)


@pytest.mark.parametrize(
    ("shape", "args", "size"),
    [
        ((3,), {"axis": 0}, 3), ((2, 3), {}, 3), ((2, 3), {"axis": -1}, 3), ((1, 2, 2, 5), {"order": "NHWC"}, 5),
        ((4,), {"axis": 0}, None), ((0, 3), {"axis": 0}, None), ((3,), {"axis": 0, "split": [1, 2]}, None),
    ],
)  # fmt: skip
def test_axes_that_are_split_equally(shape: tuple[int, ...], args: dict[str, Any], size: int | None) -> None:
    workspace, names = workspace_of([floats(*shape)])
    halves = operator("Split", names, ["y", "z"], **args)
    if size is None:
        workspace.run_operator_once(halves)
        return
    with pytest.raises(RunError, match=rf"\({size}\) must be a multiple of the number of outputs \(2\)"):
        workspace.run_operator_once(halves)


def test_every_run_is_checked_whatever_ran_before() -> None:
    workspace, names = workspace_of([TABLE, IDS + 1, TWO])
    workspace.create_net(NetDef(name="net", op=[operator("SparseLengthsSum", names, ["y"])]))
    for _ in range(3):
        workspace.run_net("net")
    for ids in (IDS, IDS, IDS + 1):
        workspace.feed("x1", ids)
        if ids is IDS:
            with pytest.raises(RunError, match="index -1"):
                workspace.run_net("net")
        else:
            workspace.run_net("net")


def test_an_input_that_the_net_overwrites_first_is_not_looked_at() -> None:
    workspace, _ = workspace_of([TABLE, floats(3, 1)])
    ops = [operator("Copy", ["x0"], ["x1"]), operator("SquaredL2Distance", ["x0", "x1"], ["y"])]
    workspace.run_net_once(NetDef(name="net", op=ops))
    np.testing.assert_array_equal(workspace.fetch("y"), np.zeros(3))  # type: ignore[arg-type]


def computed_ids(*ops: Any) -> Workspace:
    workspace = Workspace(options=SessionOptions(check_computed=True))
    workspace.feed("table", TABLE)
    workspace.feed("lengths", TWO)
    look_up = operator("SparseLengthsSum", ["table", "ids", "lengths"], ["pooled"])
    first = operator("Cast", ["floats"], ["ids"], to=10)
    workspace.feed("floats", floats(2))
    workspace.create_net(NetDef(name="computed", op=[first, look_up, *ops]))
    return workspace


def test_computed_ids_are_checked_as_an_option() -> None:
    workspace = computed_ids()
    for wrong in (False, False, False, False, True, False, True):
        ids = np.array([0, -2 if wrong else 2], np.float32)
        workspace.feed("floats", ids)
        if wrong:
            with pytest.raises(RunError, match=r"computed\[1\] SparseLengthsSum: index -2 is negative"):
                workspace.run_net("computed", 2)
        else:
            workspace.run_net("computed", 2)
            np.testing.assert_array_equal(workspace.fetch("pooled"), [TABLE[0] + TABLE[2]])


def test_computed_ids_that_are_overwritten_later_are_not_checked() -> None:
    workspace = computed_ids(operator("ConstantFill", [], ["ids"], shape=[1], value=-7, dtype=10))
    workspace.run_net("computed")
    np.testing.assert_array_equal(workspace.fetch("ids"), [-7])

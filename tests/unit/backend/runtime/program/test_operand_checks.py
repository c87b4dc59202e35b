"""Operands with which real Caffe2 raises, and which an exported model takes: each case was run in real Caffe2."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import SessionOptions, Workspace
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.proto.caffe2_pb2 import NetDef

TABLE = np.arange(6, dtype=np.float32).reshape(3, 2)
SCORES = np.full((2, 3), 1 / 3, np.float32)


def floats(*shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.full(shape, 0.3, np.float32)


def ints(*values: int, dtype: type = np.int32) -> np.ndarray[Any, Any]:
    return np.array(values, dtype)


IDS = ints(0, -1, dtype=np.int64)
TWO = ints(2)

RAISE: list[tuple[str, list[Any], str]] = [
    ("SparseLengthsSum", [TABLE, IDS, TWO], "index -1 is negative"),
    ("SparseLengthsMean", [TABLE, IDS, TWO], "index -1 is negative"),
    ("SparseLengthsWeightedSum", [TABLE, floats(2), IDS, TWO], "index -1 is negative"),
    ("SparseLengthsPositionalWeightedSum", [TABLE, floats(3), IDS, TWO], "index -1 is negative"),
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
    ("FC", [SCORES, floats(4, 3), floats(1)], "the bias must have 4 elements, not 1"),
    ("Accuracy", [SCORES, ints(0)], "as many rows"),
    ("BooleanMask", [TABLE, np.array([True, False])], "as many rows"),
]  # fmt: skip
PASS: list[tuple[str, list[Any]]] = [
    ("SparseLengthsSum", [TABLE, IDS + 1, TWO]),
    ("SparseLengthsSum", [TABLE, ints(dtype=np.int64), ints(0, 0)]),
    ("SortedSegmentSum", [TABLE, ints(0, 0, 1)]),
    ("LabelCrossEntropy", [SCORES, ints(0, 1).reshape(2, 1)]),
    ("SoftmaxWithLoss", [SCORES, ints(0, 2)]),
    ("SegmentIdsToLengths", [ints(1, 3)]),
    ("FC", [SCORES, floats(4, 3), floats(4)]),
]


def workspace_of(operands: list[Any]) -> tuple[Workspace, list[str]]:
    workspace = Workspace()
    names = [f"x{index}" for index in range(len(operands))]
    for name, value in zip(names, operands, strict=True):
        workspace.feed(name, value)
    return workspace, names


@pytest.mark.parametrize(("op_type", "operands", "message"), RAISE)
def test_operands_that_caffe2_refuses_raise(op_type: str, operands: list[Any], message: str) -> None:
    workspace, names = workspace_of(operands)
    with pytest.raises(RunError, match=rf"\[0\] {op_type}: .*{message}.* \(inputs: {', '.join(names)}\)"):
        workspace.run_operator_once(operator(op_type, names, ["y", "z"][: 1 + (op_type == "SoftmaxWithLoss")]))


@pytest.mark.parametrize(("op_type", "operands"), PASS)
def test_operands_that_caffe2_takes_pass(op_type: str, operands: list[Any]) -> None:
    workspace, names = workspace_of(operands)
    workspace.run_operator_once(operator(op_type, names, ["y", "z"][: 1 + (op_type == "SoftmaxWithLoss")]))


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

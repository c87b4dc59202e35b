"""Dataset operators: what real Caffe2 1.9.1 returned for the same operators, and a comparison with it in place.

Modules: packed_records.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance.recording import operator
from support.workspace.transcripts import Call, compare

from caffe2_backend import Workspace
from caffe2_backend.runtime.host.datasets.tree import Tree, TreeError
from caffe2_bridge.diagnostics import RunError

FIELDS = ["a:lengths", "a:values", "b"]
COLUMNS: dict[str, Any] = {
    "al": np.array([1, 2, 3], np.int32),
    "av": np.array([10, 20, 21, 30, 31, 32]),
    "b": np.arange(6, dtype=np.float32).reshape(3, 2),
}
OUT = ["x", "y", "z"]


def workspace() -> Workspace:
    made = Workspace()
    for name, value in COLUMNS.items():
        made.feed(name, value)
    return made


def run(given: Workspace, op_type: str, inputs: list[str], outputs: list[str], **args: Any) -> list[Any]:
    given.run_operator_once(operator(op_type, inputs, outputs, **args))
    return [np.asarray(given.fetch(name)).tolist() for name in outputs]


def test_fields_find_the_innermost_list() -> None:
    names = ["r", "a:lengths", "a:b:lengths", "a:b:id", "a:k", "ab", "lengths", "c:lengths"]
    tree = Tree.of(names)
    assert tree.lengths == (1, 2, 6, 7)
    assert tree.domains == (0, 0, 1, 2, 1, 0, 0, 0)
    with pytest.raises(TreeError, match="'a:values' comes before 'a:lengths'"):
        Tree.of(["a:values", "a:lengths"])


def test_batches_are_read_in_order() -> None:
    given = workspace()
    given.run_operator_once(operator("CreateTreeCursor", [], ["c"], fields=FIELDS))
    inputs = ["c", *COLUMNS]
    assert run(given, "GetCursorOffset", ["c"], ["o"]) == [[]]
    assert run(given, "ReadNextBatch", inputs, OUT, batch_size=2) == [[1, 2], [10, 20, 21], [[0, 1], [2, 3]]]
    assert run(given, "GetCursorOffset", ["c"], ["o"]) == [[2, 3]]
    assert run(given, "ReadNextBatch", inputs, OUT, batch_size=2) == [[3], [30, 31, 32], [[4, 5]]]
    assert run(given, "ReadNextBatch", inputs, OUT, batch_size=2) == [[], [], []]
    given.run_operator_once(operator("ResetCursor", ["c"], []))
    run(given, "ReadNextBatch", inputs, OUT, batch_size=2, enforce_batch_size=1)
    assert run(given, "ReadNextBatch", inputs, OUT, batch_size=2, enforce_batch_size=1) == [[], [], []]
    assert run(given, "GetCursorOffset", ["c"], ["o"]) == [[3, 6]]


def test_batches_do_not_share_memory_with_the_dataset() -> None:
    given = workspace()
    given.run_operator_once(operator("CreateTreeCursor", [], ["c"], fields=["b"]))
    given.run_operator_once(operator("ReadNextBatch", ["c", "b"], ["x"], batch_size=3))
    given.host_array("x")[:] = 7
    assert np.array_equal(np.asarray(given.fetch("b")), COLUMNS["b"])


def test_random_batches_follow_indices() -> None:
    given = workspace()
    given.run_operator_once(operator("CreateTreeCursor", [], ["c"], fields=FIELDS))
    assert run(given, "ComputeOffset", ["c", *COLUMNS], ["o"]) == [[[0, 0], [1, 1], [2, 3], [3, 6]]]
    given.feed("i", np.array([2, 0, 1]))
    inputs = ["c", "i", "o", *COLUMNS]
    given.run_operator_once(operator("ResetCursor", ["c"], []))
    first = [[3, 1], [30, 31, 32, 10], [[4, 5], [0, 1]]]
    assert run(given, "ReadRandomBatch", inputs, OUT, batch_size=2, loop_over=1) == first
    assert run(given, "ReadRandomBatch", inputs, OUT, batch_size=2, loop_over=1) == [[2], [20, 21], [[2, 3]]]
    assert run(given, "ReadRandomBatch", inputs, OUT, batch_size=2, loop_over=1) == first
    given.feed("i", np.array([3]))
    with pytest.raises(RunError, match="do not have all records"):
        run(given, "ReadRandomBatch", inputs, OUT, loop_over=1)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"b": np.ones((2, 2), np.float32)}, "field 'b' has 2 elements, and 'a:lengths' of the same list has 3"),
        ({"av": np.ones(7, np.int64)}, "field 'a:values' has 7 elements, and its lengths need 6"),
        ({"av": np.ones(5, np.int64)}, "the lengths 'a:lengths' need 6 elements, and their fields have 5"),
        ({"al": np.ones(3, np.float32)}, "field 'a:lengths' must be int32, not float32"),
        ({"b": np.float32(1)}, "field 'b' must have one dim at least"),
    ],
)
def test_inconsistent_datasets_are_errors(columns: dict[str, Any], message: str) -> None:
    given = workspace()
    check = operator("CheckDatasetConsistency", list(COLUMNS), [], fields=FIELDS)
    given.run_operator_once(check)
    for name, value in columns.items():
        given.feed(name, value)
    with pytest.raises(RunError, match=message):
        given.run_operator_once(check)


def test_a_sample_of_tensors_is_kept() -> None:
    given = Workspace(seed=1)
    given.run_operator_once(operator("CreateTensorVector", [], ["v"]))
    net = given.create_net(_named("sample", operator("CollectTensor", ["v", "t"], ["v"], num_to_collect=20)))
    for i in range(200):
        given.feed("t", np.array([i]))
        given.run_net(net)
    assert run(given, "TensorVectorSize", ["v"], ["n"]) == [20]
    kept = run(given, "ConcatTensorVector", ["v"], ["o"])[0]
    assert len(set(kept)) == 20
    assert 50 < np.mean(kept) < 150


def _named(name: str, *ops: Any) -> Any:
    from caffe2_bridge.proto.caffe2_pb2 import NetDef

    return NetDef(name=name, op=ops)


def calls() -> list[list[Call]]:
    """Return operators on cursors and datasets, and all blobs after each of them."""
    inputs = ["c", *COLUMNS]
    many = {"k": np.array([5, 3, 8, 1, 7, 2, 6, 4, 9, 0, 3], np.int32), "l": np.ones(11, np.int32), "w": np.arange(11)}
    huge = {"k": np.random.default_rng(1).permutation(70000).astype(np.int32), "l": np.ones(2, np.int32)}
    cursor = operator("CreateTreeCursor", [], ["c"], fields=FIELDS)
    transcripts: list[list[Call]] = []
    for args in ({}, {"batch_size": 2}, {"batch_size": 2, "enforce_batch_size": 1}, {"batch_size": 9}):
        steps = [operator("ReadNextBatch", inputs, OUT, **args), operator("GetCursorOffset", ["c"], ["o"])]
        transcripts.append([*_feeds(COLUMNS), ("RunOperatorOnce", cursor), *_runs(steps * 4, [*OUT, "o"])])
        for loop in ({}, {"loop_over": 1}):
            steps = [operator("ReadRandomBatch", ["c", "i", "off", *COLUMNS], OUT, **args, **loop), steps[1]]
            transcripts.append([
                *_feeds({**COLUMNS, "i": np.array([2, 0, 1])}),
                ("RunOperatorOnce", cursor),
                ("RunOperatorOnce", operator("ComputeOffset", inputs, ["off"])),
                ("FetchBlob", "off"),
                ("RunOperatorOnce", operator("ResetCursor", ["c"], [])),
                *_runs(steps * 4, [*OUT, "o"]),
            ])  # fmt: skip
    shuffled = operator("CreateTreeCursor", [], ["c"], fields=["k", "l:lengths", "l:w"])
    for columns in (many, {**huge, "w": np.arange(2)}):
        for args in (
            {"sort_by_field_idx": 0}, {"sort_by_field_idx": 0, "batch_size": 3}, {"sort_by_field_idx": -1},
            {"sort_by_field_idx": -1, "batch_size": 2, "shuffle_size": 2}, {"sort_by_field_idx": 0, "shuffle_size": 5},
        ):  # fmt: skip
            op = operator("SortAndShuffle", ["c", *columns], ["o"], **args)
            transcripts.append([*_feeds(columns), ("RunOperatorOnce", shuffled), *_runs([op], ["o"])])
    texts = np.array([b"p", b"q", b"r"], object)
    records = [operator("PackRecords", [*COLUMNS, "t"], ["r"], fields=[*FIELDS, "t"], pack_to_single_shared_ptr=single)
               for single in (0, 1)]  # fmt: skip
    unpack = operator("UnPackRecords", ["r"], [*OUT, "u"], fields=[*FIELDS, "t"])
    trims = [operator("TrimDataset", [*COLUMNS], [*COLUMNS], fields=FIELDS, multiple_of=n) for n in (1, 2, 5)]
    appends = [
        operator("CreateMutex", [], ["m"]),
        operator("AtomicAppend", ["m", "t", "b", "t2", "b2"], ["t", "b"]),
        operator("Append", ["b", "b2"], ["b"]),
        operator("Append", ["empty", "al"], ["empty"]),
        operator("Append", ["empty", "b"], ["empty"]),
    ]
    fed = {**COLUMNS, "t": texts, "t2": texts, "b2": COLUMNS["b"], "empty": np.zeros((0, 3), np.float32)}
    transcripts.extend([*_feeds(fed), ("RunOperatorOnce", pack), *_runs([unpack], [*OUT, "u"])] for pack in records)
    transcripts.extend([*_feeds(fed), *_runs([trim], list(COLUMNS))] for trim in trims)
    transcripts.append([*_feeds(fed), *_runs(appends, ["t", "b", "empty"])])
    return transcripts


def _feeds(columns: dict[str, Any]) -> list[Call]:
    return [("FeedBlob", name, value) for name, value in columns.items()]


def _runs(steps: list[Any], names: list[str]) -> list[Call]:
    return [call for step in steps for call in (("RunOperatorOnce", step), *(("FetchBlob", name) for name in names))]


@pytest.mark.oracle
def test_like_caffe2(tmp_path: Path) -> None:
    compare(calls(), tmp_path)

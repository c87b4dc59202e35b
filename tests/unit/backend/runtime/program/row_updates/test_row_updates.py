"""Updates of rows by loops, in Python or compiled: what onnxruntime computes, in the same memory.

Modules: updatable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conformance.recording import operator
from support.row_loops import choose_loops, without_loops

from caffe2_backend import Workspace
from caffe2_backend.runtime.placement import make
from caffe2_backend.runtime.program.program import Program
from caffe2_backend.runtime.program.row_updates.program import RowUpdateProgram
from caffe2_bridge.diagnostics import ConversionError, RunError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

ROWS, WIDTH, COUNT = 600, 8, 12
INDEX = np.array([3, 599, 3, 0, 17, 3, 3, 0, 5, 6, 7, 3], np.int64)
DISTINCT = np.arange(COUNT, dtype=np.int64)
UPDATES: dict[str, OperatorDef] = {
    "SparseAdagrad": operator("SparseAdagrad", ["table", "m", "ids", "g", "lr"], ["table", "m"]),
    "decay": operator("SparseAdagrad", ["table", "m", "ids", "g", "lr"], ["table", "m"], weight_decay=0.1),
    "RowWiseSparseAdagrad": operator("RowWiseSparseAdagrad", ["table", "r", "ids", "g", "lr"], ["table", "r"]),
    "row decay": operator("RowWiseSparseAdagrad", ["table", "r", "ids", "g", "lr"], ["table", "r"], weight_decay=0.1),
    "SparseAdam": operator("SparseAdam", ["table", "m", "n", "ids", "g", "lr", "t"], ["table", "m", "n"], beta2=0.9),
    "row adam": operator("RowWiseSparseAdam", ["table", "m", "r", "ids", "g", "lr", "t"], ["table", "m", "r"]),
    "plain": operator("SparseMomentumSGDUpdate", ["g", "m", "lr", "table", "ids"], ["d", "m", "table"], momentum=0.9),
    "nesterov": operator(
        "SparseMomentumSGDUpdate", ["g", "m", "lr", "table", "ids"], ["d", "m", "table"], momentum=0.9, nesterov=1
    ),
    "SparseFtrl": operator("SparseFtrl", ["table", "nz", "ids", "g"], ["table", "nz"], lambda1=0.2),
    "alpha": operator("SparseFtrl", ["table", "nz", "ids", "g", "half"], ["table", "nz"]),
    "SparseWngrad": operator("SparseWngrad", ["table", "half", "ids", "g", "lr"], ["table", "half"]),
    "SparseStorm": operator("SparseStorm", ["table", "m", "half", "g", "ids", "lr"], ["table", "m", "half"], beta=0.2),
    "SparseAdadelta": operator(
        "SparseAdadelta", ["table", "m", "n", "ids", "g", "lr"], ["table", "m", "n"], decay=0.9
    ),
    **{
        f"{name} rectification": operator(
            "SparseAdam", ["table", "m", "n", "ids", "g", "lr", "t"], ["table", "m", "n"], enableRAdam=flag
        )
        for name, flag in {"no": 0, "with": 1}.items()
    },
    "one": operator("ScatterWeightedSum", ["table", "one", "ids", "g", "lr"], ["table"]),
    "half": operator("ScatterWeightedSum", ["table", "half", "ids", "g", "lr", "g", "half"], ["table"]),
}  # fmt: skip


@pytest.fixture(params=["python", "numba"])
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    choose_loops(request.param, monkeypatch)


@pytest.fixture
def onnxruntime_only(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    return without_loops(monkeypatch)


def step(update: OperatorDef) -> NetDef:
    ops = [
        operator("Gather", ["table", "ids"], ["rows"]),
        operator("Mul", ["rows", "factors"], ["g"]),
        operator("Iter", ["t"], ["t"]),
        update,
        operator("SumElements", ["rows"], ["sum"]),
    ]
    return NetDef(name="step", op=ops)


def made(net: NetDef, ids: np.ndarray[Any, Any] = INDEX) -> Workspace:
    workspace = Workspace()
    random = np.random.default_rng(1)
    workspace.feed("table", random.standard_normal((ROWS, WIDTH)).astype(np.float32))
    workspace.feed("factors", random.standard_normal((COUNT, WIDTH)).astype(np.float32))
    for name, shape in {"m": (ROWS, WIDTH), "n": (ROWS, WIDTH), "r": (ROWS,), "nz": (ROWS, WIDTH, 2)}.items():
        workspace.feed(name, np.full(shape, 0.1, np.float32))
    for name, value in {"lr": -0.05, "one": 1, "half": 0.5}.items():
        workspace.feed(name, np.array([value], np.float32))
    workspace.feed("t", np.zeros(1, np.int64))
    workspace.feed("ids", ids)
    workspace.create_net(net)
    return workspace


def blobs(workspace: Workspace) -> dict[str, Any]:
    return {name: workspace.fetch(name) for name in workspace.blobs()}


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("ids", [INDEX, DISTINCT.astype(np.int32)], ids=["repeated", "distinct"])
@pytest.mark.parametrize("times", [1, 7])
@pytest.mark.parametrize("name", UPDATES)
def test_blobs_are_those_of_onnxruntime(
    name: str, times: int, ids: np.ndarray[Any, Any], onnxruntime_only: Callable[[], None]
) -> None:
    net = step(UPDATES[name])
    ours = made(net, ids)
    ours.run_net("step")
    ours.run_net("step", times)
    assert isinstance(ours._nets["step"].stages[0].program, RowUpdateProgram)  # type: ignore[attr-defined]
    onnxruntime_only()
    theirs = made(net, ids)
    theirs.run_net("step")
    theirs.run_net("step", times)
    assert isinstance(theirs._nets["step"].stages[0].program, Program)  # type: ignore[attr-defined]
    expected, found = blobs(theirs), blobs(ours)
    assert expected.keys() == found.keys()
    for blob, value in expected.items():
        np.testing.assert_allclose(found[blob], value, rtol=2e-5, atol=1e-6, err_msg=blob)


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("name", UPDATES)
def test_tables_stay_where_they_are_and_what_was_handed_out_does_not_change(name: str) -> None:
    workspace = made(step(UPDATES[name]))
    workspace.run_net("step")
    workspace.run_net("step")

    def address() -> int:
        value = workspace._store.blobs["table"]
        assert isinstance(value, np.ndarray)
        return value.ctypes.data

    before = address()
    for _ in range(3):
        workspace.run_net("step", 2)
    assert address() == before
    shared = workspace._store.blobs["table"]
    assert isinstance(shared, np.ndarray)
    kept = shared.copy()
    workspace.run_net("step", 3)
    np.testing.assert_array_equal(shared, kept)
    assert address() != before


@pytest.mark.usefixtures("loops")
def test_a_part_that_does_not_read_the_table_copies_nothing() -> None:
    """What it defers does not need the table; the part before it, which reads the table, defers nothing."""
    gather, grad, count, update, total = step(UPDATES["SparseAdagrad"]).op
    deferred = [operator("Scale", ["lr"], ["rate"], scale=1.0), operator("Copy", ["rate"], ["used"])]
    net = NetDef(name="step", op=[gather, operator("Print", ["rows"], []), grad, count, *deferred, update, total])
    workspace = made(net)
    places = set()
    for run in range(5):
        before = np.asarray(workspace.fetch("table"))
        workspace.run_net("step")
        np.testing.assert_array_equal(workspace.fetch("rows"), before[INDEX])  # type: ignore[arg-type]
        value = workspace._store.blobs["table"]
        assert isinstance(value, np.ndarray)
        places.add(value.ctypes.data if run else 0)
        del value  # else the next run must not change it
    assert len(places - {0}) == 1


@pytest.mark.usefixtures("loops")
def test_an_id_that_is_no_row_changes_nothing() -> None:
    workspace = made(step(UPDATES["SparseAdagrad"]))
    workspace.run_net("step")
    net = NetDef(name="alone", op=[operator("Copy", ["wrong"], ["ids"]), UPDATES["SparseAdagrad"]])
    workspace.create_net(net)
    for wrong in (-1, ROWS):
        workspace.feed("wrong", np.full(COUNT, wrong, np.int64))
        before = workspace.fetch("table")
        with pytest.raises(
            RunError, match=rf"alone\[1\] SparseAdagrad: id {wrong} of blob 'ids' must be one of {ROWS}"
        ):
            workspace.run_net("alone")
        np.testing.assert_array_equal(workspace.fetch("table"), before)  # type: ignore[arg-type]


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize(
    "after",
    [
        operator("Gather", ["table", "ids"], ["again"]),
        operator("Scale", ["table"], ["table"], scale=2.0),
        operator("Copy", ["factors"], ["lr"]),
    ],
    ids=["reads", "writes", "overwrites"],
)
def test_an_update_that_others_follow_stays_in_order(after: OperatorDef) -> None:
    net = step(UPDATES["SparseAdagrad"])
    net.op.append(after)
    assert type(make.make_program(net, None, Workspace()._options)) is Program


@pytest.mark.usefixtures("loops")
def test_tables_of_other_types_run_on_onnxruntime() -> None:
    workspace = made(step(UPDATES["one"]))
    for name in ("table", "factors", "one", "lr"):
        workspace.feed(name, workspace.fetch(name).astype(np.float64))  # type: ignore[union-attr]
    before = workspace.fetch("table")
    workspace.run_net("step")
    assert workspace.fetch("table").dtype == np.float64  # type: ignore[union-attr]
    assert not np.array_equal(workspace.fetch("table"), before)  # type: ignore[arg-type]


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize(("name", "state"), [(name, blob) for name, op in UPDATES.items() for blob in op.input
                                             if blob in {"m", "n", "r", "nz"}])  # fmt: skip
def test_a_state_of_another_size_changes_nothing(name: str, state: str) -> None:
    workspace = made(step(UPDATES[name]))
    workspace.feed(state, np.full((ROWS // 2, WIDTH // 2), 0.1, np.float32))
    before = workspace.fetch("table")
    with pytest.raises(RunError, match=r"step\[3\] \w+: .*\(inputs: "):
        workspace.run_net("step")
    np.testing.assert_array_equal(workspace.fetch("table"), before)  # type: ignore[arg-type]


@pytest.mark.usefixtures("loops")
def test_a_state_may_have_other_dims() -> None:
    found = []
    for shape in ((ROWS, WIDTH, 2), (ROWS * WIDTH * 2,)):
        workspace = made(step(UPDATES["SparseFtrl"]))
        workspace.feed("nz", np.full(shape, 0.1, np.float32))
        workspace.run_net("step")
        found.append([np.asarray(workspace.fetch(name)).ravel() for name in ("table", "nz")])
    np.testing.assert_array_equal(*map(np.concatenate, found))


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("dims", [(COUNT,), (3, 4)])
@pytest.mark.parametrize("table", ["table", "r"])
def test_loops_alone_run_a_net_of_lookups_and_updates(
    table: str, dims: tuple[int, ...], onnxruntime_only: Callable[[], None]
) -> None:
    update = operator("SparseAdagrad", ["table", "m", "ids", "factors", "lr"], ["table", "m"])
    net = NetDef(name="step", op=[operator("Gather", [table, "ids"], ["rows"]), update])
    ours = made(net, INDEX.reshape(dims))
    ours.run_net("step", 3)
    assert ours.conversions() == 0
    onnxruntime_only()
    theirs = made(net, INDEX.reshape(dims))
    theirs.run_net("step", 3)
    expected, found = blobs(theirs), blobs(ours)
    assert expected.keys() == found.keys()
    for blob, value in expected.items():
        np.testing.assert_allclose(found[blob], value, rtol=2e-5, atol=1e-6, err_msg=blob)
    ours.feed("ids", np.array([0, -1], np.int64))
    with pytest.raises(RunError, match=r"step\[1\] SparseAdagrad: id -1 of blob 'ids' must be one of 600 rows"):
        ours.run_net("step")
    for ids in ([0, 600], [0, -601]):
        ours.feed("ids", np.array(ids, np.int64))
        with pytest.raises(RunError, match=rf"step\[0\] Gather: id {ids[1]} of blob 'ids' must be one of 600 rows"):
            ours.run_net("step")


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("name", UPDATES)
@pytest.mark.parametrize("twice", [False, True])
def test_tables_that_the_net_changes_before_it_updates_rows(
    name: str, *, twice: bool, onnxruntime_only: Callable[[], None]
) -> None:
    update = UPDATES[name]
    states = [blob for blob in update.output if blob in update.input]
    nets = [NetDef(name="step", op=[operator("Scale", [blob], [blob], scale=0.5), update]) for blob in states]
    computed = OperatorDef()
    computed.CopyFrom(update)
    for names in (computed.input, computed.output):
        names[:] = ["made" if blob == "table" else blob for blob in names]
    nets.append(NetDef(name="step", op=[operator("Scale", ["table"], ["made"], scale=0.5), computed]))
    for net in nets:
        net.op.extend([net.op[-1]] * twice)
    ours = [run_twice(net) for net in nets]
    onnxruntime_only()
    for net, found in zip(nets, ours, strict=True):
        for blob, value in run_twice(net).items():
            np.testing.assert_allclose(found[blob], value, rtol=2e-5, atol=1e-6, err_msg=blob)


def run_twice(net: NetDef) -> dict[str, Any]:
    workspace = made(net, DISTINCT)
    workspace.feed("g", np.full((COUNT, WIDTH), 0.2, np.float32))
    workspace.run_net(net.name, 2)
    return blobs(workspace)


@pytest.mark.usefixtures("loops")
def test_gather_counts_negative_ids_from_the_end() -> None:
    workspace = made(NetDef(name="step", op=[operator("Gather", ["table", "ids"], ["rows"])]), np.array([0, -1, -ROWS]))
    workspace.run_net("step")
    np.testing.assert_array_equal(workspace.fetch("rows"), workspace.fetch("table")[[0, -1, 0]])


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize(
    ("runs", "wrong", "message"),
    [(runs, np.full(COUNT, ROWS), "id 600 of blob 'wrong' must be one of") for runs in range(3)]
    + [(0, np.arange(3), ".*gradients of 3 rows")],
)
def test_before_an_operator_fails_the_others_leave_their_results(
    runs: int, wrong: np.ndarray[Any, Any], message: str
) -> None:
    """What comes after it is not done, and no table is updated twice."""
    ops = [
        operator("Iter", ["t"], ["t"]),
        operator("SparseLengthsSum", ["table", "ids", "lengths"], ["pooled"]),
        UPDATES["SparseAdagrad"],
        operator("Copy", ["pooled"], ["copied"]),
        operator("SparseMomentumSGDUpdate", ["g", "n", "lr", "other", "wrong"], ["d", "n", "other"]),
        operator("Copy", ["half"], ["last"]),
    ]
    net, before = (NetDef(name="step", op=some) for some in (ops, ops[:4]))
    ours, expected = made(net), made(before)
    for workspace in (ours, expected):
        workspace.feed("g", np.full((COUNT, WIDTH), 0.2, np.float32))
        workspace.feed("lengths", np.array([COUNT], np.int32))
        workspace.feed("other", np.ones((ROWS, WIDTH), np.float32))
        workspace.feed("wrong", INDEX)
        for _ in range(runs):
            workspace.run_net("step")
    others = {name: ours.fetch(name) for name in ("other", "n")}
    ours.feed("last", np.zeros(1, np.float32))
    ours.feed("wrong", wrong)
    with pytest.raises(RunError, match=rf"step\[4\] SparseMomentumSGDUpdate: {message}"):
        ours.run_net("step")
    expected.run_net("step")
    for name in ("t", "pooled", "table", "m", "copied"):
        np.testing.assert_allclose(ours.fetch(name), expected.fetch(name), rtol=1e-6, err_msg=name)  # type: ignore[arg-type]
    for name, value in {**others, "last": np.zeros(1, np.float32)}.items():
        np.testing.assert_array_equal(ours.fetch(name), value, err_msg=name)  # type: ignore[arg-type]


@pytest.mark.usefixtures("loops")
def test_a_table_that_a_loop_outputs(onnxruntime_only: Callable[[], None]) -> None:
    """The steps of one update overwrite the table of another, before it or after it."""
    steps = operator("SparseMomentumSGDUpdate", ["g", "m", "lr", "table", "ids"], ["n", "m", "table"], momentum=0.9)
    update = operator("ScatterWeightedSum", ["n", "one", "ids", "g", "lr"], ["n"])
    nets = [NetDef(name="step", op=ops) for ops in ([steps, update], [update, steps])]
    ours = [run_twice(net) for net in nets]
    onnxruntime_only()
    for net, found in zip(nets, ours, strict=True):
        for blob, value in run_twice(net).items():
            np.testing.assert_allclose(found[blob], value, rtol=2e-5, atol=1e-6, err_msg=blob)


@pytest.mark.usefixtures("loops")
def test_a_lookup_that_overwrites_its_operands_is_refused() -> None:
    """As by real Caffe2, and without loops."""
    workspace = made(NetDef(name="step", op=[operator("Gather", ["table", "ids"], ["ids"])]))
    with pytest.raises(ConversionError, match="in-place"):
        workspace.run_net("step")

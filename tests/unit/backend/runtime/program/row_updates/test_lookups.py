"""Lookups in tables and their gradients by loops, around what onnxruntime computes of a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conformance.recording import operator
from support.row_loops import choose_loops, without_loops

from caffe2_backend import Workspace
from caffe2_backend.runtime.program.program import Program
from caffe2_backend.runtime.program.row_updates.program import RowUpdateProgram
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

ROWS, WIDTH = 50, 3
IDS, LENGTHS = np.array([3, 49, 3, 0, 17, 3], np.int64), np.array([2, 0, 3, 1], np.int32)
GRADIENT = "SparseLengthsIndicesInGradient"
FORMS: dict[str, list[OperatorDef]] = {
    "sum": [
        operator("SparseLengthsSum", ["table", "ids", "lengths"], ["pooled"]),
        operator(f"{GRADIENT}SumGradient", ["dpooled", "lengths", "ids"], ["g"]),
    ],
    "mean": [
        operator("SparseLengthsMean", ["table", "ids", "lengths"], ["pooled"]),
        operator(f"{GRADIENT}MeanGradient", ["dpooled", "lengths", "ids"], ["g"]),
    ],
    "weighted": [
        operator("SparseLengthsWeightedSum", ["table", "weights", "ids", "lengths"], ["pooled"]),
        operator(f"{GRADIENT}WeightedSumGradient", ["weights", "dpooled", "lengths", "ids"], ["g"]),
    ],
    "weights": [
        operator("SparseLengthsWeightedSum", ["table", "weights", "ids", "lengths"], ["pooled"], grad_on_weights=1),
        operator(
            f"{GRADIENT}WeightedSumWithMainInputGradient",
            ["weights", "dpooled", "lengths", "table", "ids"],
            ["g", "dw"],
        ),
    ],
}  # fmt: skip


@pytest.fixture(params=["python", "numba"])
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    choose_loops(request.param, monkeypatch)


@pytest.fixture
def onnxruntime_only(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    return without_loops(monkeypatch)


def step(form: str) -> NetDef:
    look_up, gradient = FORMS[form]
    update = operator("SparseAdagrad", ["table", "moment", "ids", "g", "lr"], ["table", "moment"])
    scaled = operator("Mul", ["pooled", "factors"], ["dpooled"])
    return NetDef(name="step", op=[look_up, operator("Iter", ["t"], ["t"]), scaled, gradient, update])


def made(form: str, **given: np.ndarray[Any, Any]) -> Workspace:
    workspace, random = Workspace(), np.random.default_rng(1)
    blobs: dict[str, Any] = {
        "table": random.standard_normal((ROWS, WIDTH)), "moment": np.full((ROWS, WIDTH), 0.1),
        "factors": random.standard_normal((LENGTHS.size, WIDTH)), "weights": random.standard_normal(IDS.size),
        "lr": np.array([-0.05]),
    }  # fmt: skip
    for name, value in blobs.items():
        workspace.feed(name, value.astype(np.float32))
    for name, value in {"ids": IDS, "lengths": LENGTHS, "t": np.zeros(1, np.int64), **given}.items():
        workspace.feed(name, value)
    workspace.create_net(step(form))
    return workspace


def program_of(workspace: Workspace) -> Any:
    return workspace._nets["step"].stages[0].program  # type: ignore[attr-defined]


def blobs(workspace: Workspace) -> dict[str, Any]:
    return {name: workspace.fetch(name) for name in workspace.blobs()}


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("ids", [IDS, IDS.astype(np.int32)], ids=["int64", "int32"])
@pytest.mark.parametrize("form", FORMS)
def test_blobs_are_those_of_onnxruntime(
    form: str, ids: np.ndarray[Any, Any], onnxruntime_only: Callable[[], None]
) -> None:
    ours = made(form, ids=ids)
    ours.run_net("step")
    ours.run_net("step", 3)
    assert isinstance(program_of(ours), RowUpdateProgram)
    onnxruntime_only()
    theirs = made(form, ids=ids)
    theirs.run_net("step")
    theirs.run_net("step", 3)
    assert isinstance(program_of(theirs), Program)
    expected, found = blobs(theirs), blobs(ours)
    assert expected.keys() == found.keys()
    for blob, value in expected.items():
        np.testing.assert_allclose(found[blob], value, rtol=2e-5, atol=1e-6, err_msg=blob)


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("form", FORMS)
def test_onnxruntime_sees_neither_tables_nor_lengths(form: str) -> None:
    workspace = made(form)
    workspace.run_net("step")
    main = program_of(workspace)._main.interface
    assert {*main.needs} == {"t", "factors", "pooled"}


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"ids": np.array([3, -1, 3, 0, 17, 3])}, "-1"),
        ({"ids": np.array([3, 50, 3, 0, 17, 3])}, "50"),
        ({"lengths": np.array([2, 0, 3, 2], np.int32)}, "lengths"),
        ({"lengths": np.array([2, 0, 3, 0], np.int32)}, "lengths"),
        ({"lengths": np.array([2, -1, 4, 1], np.int32)}, "lengths"),
    ],
)
def test_operands_that_do_not_fit_change_nothing(given: dict[str, np.ndarray[Any, Any]], reason: str) -> None:
    workspace = made("sum")
    workspace.run_net("step")
    before = blobs(workspace)
    for name, value in given.items():
        workspace.feed(name, value)
    with pytest.raises(RunError, match=rf"step\[0\] SparseLengthsSum: .*{reason}"):
        workspace.run_net("step")
    np.testing.assert_array_equal(workspace.fetch("table"), before["table"])  # type: ignore[arg-type]


@pytest.mark.usefixtures("loops")
def test_a_lookup_of_what_the_net_computes_stays_in_its_place() -> None:
    workspace = made("sum")
    net = step("sum")
    net.op.insert(0, operator("Copy", ["ids"], ["others"]))
    net.op[1].input[1] = "others"
    net.name = "other"
    workspace.create_net(net)
    workspace.run_net("other")
    program = workspace._nets["other"].stages[0].program  # type: ignore[attr-defined]
    assert "table" in program._main.interface.needs
    first = workspace.fetch("pooled")
    workspace.run_net("step")
    assert not np.array_equal(workspace.fetch("pooled"), first)  # type: ignore[arg-type]


@pytest.mark.usefixtures("loops")
def test_tables_of_half_precision_run_on_onnxruntime() -> None:
    workspace = made("sum")
    workspace.feed("table", workspace.fetch("table").astype(np.float16))  # type: ignore[union-attr]
    with pytest.raises(Exception, match="SparseAdagrad"):
        workspace.run_net("step")


def forward(kind: str, weighted: bool) -> NetDef:
    operands = ["table", *(["weights"] if weighted else []), "ids", "lengths"]
    return NetDef(
        name="forward",
        op=[
            operator(f"SparseLengths{kind}", operands, ["pooled"]),
            operator("Relu", ["pooled"], ["pooled"]),
            operator("Scale", ["pooled"], ["scaled"], scale=2.0),
        ],
    )  # fmt: skip


def fed(bits: int = 32, **given: np.ndarray[Any, Any]) -> Workspace:
    workspace, random = Workspace(), np.random.default_rng(2)
    workspace.feed("table", random.standard_normal((ROWS, 12)).astype(np.float32))
    workspace.feed("weights", random.standard_normal(IDS.size).astype(np.float32))
    for name, value in {"ids": IDS, "lengths": LENGTHS, **given}.items():
        workspace.feed(name, value)
    if bits < 32:
        workspace.run_operator_once(operator(f"FloatToFused{bits}BitRowwiseQuantized", ["table"], ["codes"]))
        workspace.feed("table", np.asarray(workspace.fetch("codes")))
    return workspace


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("ids", [IDS, IDS.astype(np.int32)], ids=["int64", "int32"])
@pytest.mark.parametrize("bits", [32, 8, 4, 2])
@pytest.mark.parametrize("kind", ["Sum", "Mean", "WeightedSum"])
def test_lookups_without_updates(
    kind: str, bits: int, ids: np.ndarray[Any, Any], onnxruntime_only: Callable[[], None]
) -> None:
    """An operator after them may overwrite what they found."""
    net = forward(kind + (f"Fused{bits}BitRowwise" if bits < 32 else ""), kind == "WeightedSum")
    found = []
    for expected_class in (RowUpdateProgram, Program):
        workspace = fed(bits, ids=ids)
        workspace.create_net(net)
        workspace.run_net("forward")
        workspace.run_net("forward", 3)
        assert type(workspace._nets["forward"].stages[0].program) is expected_class  # type: ignore[attr-defined]
        found.append(blobs(workspace))
        onnxruntime_only()
    ours, theirs = found
    assert ours.keys() == theirs.keys()
    assert ours["pooled"].min() == 0
    for blob, value in theirs.items():
        np.testing.assert_allclose(ours[blob], value, rtol=2e-5, atol=1e-6, err_msg=blob)


@pytest.mark.usefixtures("loops")
def test_a_net_of_a_lookup_alone_with_other_ids_each_time() -> None:
    workspace = fed()
    workspace.create_net(NetDef(name="alone", op=forward("Sum", weighted=False).op[:1]))
    table = np.asarray(workspace.fetch("table"))
    for ids, lengths in ((IDS, LENGTHS), (IDS[:3], np.array([3], np.int32)), (IDS[:0], np.zeros(2, np.int32))):
        workspace.feed("ids", ids)
        workspace.feed("lengths", lengths)
        workspace.run_net("alone")
        expected = [part.sum(0) for part in np.split(table[ids], np.cumsum(lengths)[:-1])]
        np.testing.assert_allclose(workspace.fetch("pooled"), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("bits", [32, 8, 4])
@pytest.mark.parametrize("given", [{"ids": np.array([3, ROWS, 3, 0, 17, 3])}, {"lengths": np.array([1], np.int32)}])
def test_lookups_without_updates_that_do_not_fit(given: dict[str, np.ndarray[Any, Any]], bits: int) -> None:
    workspace = fed(bits, **given)
    kind = "Sum" + (f"Fused{bits}BitRowwise" if bits < 32 else "")
    workspace.create_net(forward(kind, weighted=False))
    with pytest.raises(RunError, match=rf"forward\[0\] SparseLengths{kind}: "):
        workspace.run_net("forward")


@pytest.mark.usefixtures("loops")
def test_tables_that_loops_do_not_take_run_on_onnxruntime() -> None:
    workspace = fed()
    table = np.asarray(workspace.fetch("table"))
    workspace.create_net(forward("Sum", weighted=False))
    workspace.feed("table", table.astype(np.float16))
    workspace.run_net("forward")
    low = np.asarray(workspace.fetch("scaled"))
    workspace.feed("table", table)
    workspace.run_net("forward")
    np.testing.assert_allclose(workspace.fetch("scaled"), low, rtol=1e-2, atol=1e-2)

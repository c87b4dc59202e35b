"""The portable form: no If, no Scan, no sequence_lens, no reverse direction, and the numbers of the step net."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx
import pytest
from support import cells
from support.cells import Recurrent
from support.netdef_interpreter import run_net

from caffe2_backend import to_netdef
from caffe2_backend.runtime.sessions.session import Session
from caffe2_bridge.diagnostics import ConversionError
from caffe2_frontend import to_onnx

KINDS = {
    "LSTM": cells.lstm(),
    "LSTM, states dropped": cells.lstm(drop=True),
    "GRU": cells.gru(),
    "RNN": cells.rnn(),
}


def types(graph: onnx.GraphProto) -> set[str]:
    inner = (attr.g for node in graph.node for attr in node.attribute if attr.HasField("g"))
    return {node.op_type for node in graph.node}.union(*map(types, inner))


def exported(cell: Recurrent, dims: tuple[Any, ...] = ("T", "N"), **options: Any) -> onnx.ModelProto:
    shapes = {"x": ("float32", [*dims, cells.FEATURES]), "lengths": ("int32", [dims[1]])}
    return to_onnx(cell.net(), cell.init(), **{"inputs": shapes, "recurrent": "portable", **options})


def agree(model: onnx.ModelProto, cell: Recurrent, inputs: dict[str, Any]) -> None:
    session = Session(model.SerializeToString(), threads=1)
    wanted = run_net(cell.net(), {**cell.weights, **inputs})
    names = {value.name for value in model.graph.input}
    results = session.run({name: value for name, value in inputs.items() if name in names})
    for name, value in zip(session.outputs, results.values(), strict=True):
        np.testing.assert_allclose(value, wanted[name], rtol=1e-4, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_cells_need_neither_lengths_nor_branches(kind: str) -> None:
    cell = KINDS[kind]
    model = exported(cell)
    assert not types(model.graph) & {"If", "Scan", "Loop"}
    (node,) = (node for node in model.graph.node if node.op_type in ("LSTM", "GRU", "RNN"))
    assert not node.input[4:5] or not node.input[4]
    for lengths in ([0, 1, 4], [4, 4, 4], [9, 3, 2]):
        agree(model, cell, {**cells.feed(cell, 4, 3), "lengths": np.array(lengths, np.int32)})


def test_padding_is_not_read() -> None:
    cell = KINDS["LSTM"]
    inputs = {**cells.feed(cell, 4, 2), "lengths": np.array([2, 4], np.int32)}
    inputs["x"][2:, 0] = np.inf
    results = Session(exported(cell).SerializeToString(), threads=1).run(inputs)
    assert all(np.isfinite(value).all() for value in results.values())


def test_a_net_that_is_not_fused_is_a_loop_or_unrolled() -> None:
    cell = KINDS["LSTM"]
    outputs = ["h_all", "c_all", "c_last"]
    inputs = {**cells.feed(cell, 4, 3), "lengths": np.array([0, 2, 4], np.int32)}
    model = exported(cell, outputs=outputs)
    assert types(model.graph) & {"If", "Scan", "Loop", "LSTM"} == {"Loop"}
    agree(model, cell, inputs)
    model = exported(cell, (4, "N"), outputs=outputs)
    assert not types(model.graph) & {"If", "Scan", "Loop", "LSTM"}
    agree(model, cell, inputs)
    names = [name for node in model.graph.node for name in node.output]
    assert len(names) == len(set(names))
    assert "Loop" in types(exported(cell, (17, "N"), outputs=outputs).graph)


@pytest.mark.parametrize("form", ["portable", "fused", "scan", "loop"])
def test_full_lengths_are_no_input(form: str) -> None:
    cell = KINDS["LSTM"]
    model = exported(cell, recurrent=form, full_lengths=True)
    assert {value.name for value in model.graph.input} == {"x", "h_0", "c_0"}
    assert "rows as long as their sequence" in json.loads(
        next(prop.value for prop in model.metadata_props if prop.key == "caffe2.promises")
    )
    agree(model, cell, {**cells.feed(cell, 4, 3), "lengths": np.array([4, 4, 4], np.int32)})


def test_an_import_of_full_lengths_computes_the_same() -> None:
    cell = KINDS["GRU"]
    inputs = {**cells.feed(cell, 4, 3), "lengths": np.array([4, 4, 4], np.int32)}
    agree(to_onnx(to_netdef(exported(cell, full_lengths=True))), cell, inputs)


def test_promises_are_in_the_model() -> None:
    model = exported(KINDS["GRU"])
    assert "at least one step" in model.doc_string
    assert "caffe2.promises" not in {prop.key for prop in exported(KINDS["GRU"], recurrent="auto").metadata_props}


@pytest.mark.parametrize(
    ("dims", "options", "reason"),
    [((0, 2), {}, "at least one step"), ((3, 2), {"full_lengths": True}, "smaller than the 3 steps")],
)
def test_broken_promises_are_refused(dims: tuple[int, int], options: dict[str, Any], reason: str) -> None:
    cell = KINDS["GRU"]
    stored = {} if not options else {**cell.weights, "lengths": np.array([3, 1], np.int32)}
    init = cells.fills(stored) if stored else cell.init()
    shapes = {"x": ("float32", [*dims, cells.FEATURES])} | ({} if stored else {"lengths": ("int32", [2])})
    with pytest.raises(ConversionError, match=reason):
        to_onnx(cell.net(), init, inputs=shapes, recurrent="portable", **options)

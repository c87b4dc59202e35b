"""Nets that declare no outputs: rows of cell states that nothing reads do not keep an LSTM from being one."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from support import cells
from support.netdef_interpreter import run_net

from caffe2_backend.runtime.sessions.session import Session
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import check, to_onnx

CELL = cells.lstm()
INPUTS: Mapping[str, Any] = {"x": ("float32", ["T", "N", cells.FEATURES]), "lengths": ("int32", ["N"])}


def undeclared() -> NetDef:
    net = CELL.net()
    del net.external_output[:]
    return net


def node_types(model: onnx.ModelProto) -> set[str]:
    return {node.op_type for node in model.graph.node}


@pytest.mark.parametrize("form", ["auto", "fused"])
def test_unread_rows_of_the_cell_state_are_omitted(form: str) -> None:
    model = to_onnx(undeclared(), CELL.init(), inputs=INPUTS, recurrent=form)  # type: ignore[arg-type] # a literal
    assert "LSTM" in node_types(model)
    session = Session(model.SerializeToString(), threads=1)
    assert list(session.outputs) == ["h_all", "h_last", "c_last"]
    inputs = cells.feed(CELL, 4, 3)
    wanted = run_net(CELL.net(), {**CELL.weights, **inputs})
    for name, value in session.run(inputs).items():
        np.testing.assert_allclose(value, wanted[name], rtol=1e-4, atol=2e-6, err_msg=name)


def test_the_note_says_what_to_type_for_all_outputs() -> None:
    report = check(undeclared(), CELL.init(), inputs=INPUTS)
    (note,) = [finding for finding in report.findings if finding.code == "omitted-output"]
    assert note.reason.startswith("'c_all' is not an output of the model: ")
    typed = shlex.split(note.hint.partition("a Scan: ")[2].partition(", or")[0])
    assert typed[::2] == ["--output"] * 4
    outputs = typed[1::2]
    assert set(outputs) == {"h_all", "h_last", "c_all", "c_last"}
    model = to_onnx(undeclared(), CELL.init(), inputs=INPUTS, outputs=outputs)
    assert "LSTM" not in node_types(model)
    assert [output.name for output in model.graph.output] == outputs


def test_declared_outputs_stay() -> None:
    net = undeclared()
    net.external_output.extend(["h_all", "c_all"])
    model = to_onnx(net, CELL.init(), inputs=INPUTS)
    assert "LSTM" not in node_types(model)
    assert [output.name for output in model.graph.output] == ["h_all", "c_all"]


def test_other_forms_keep_all_outputs() -> None:
    model = to_onnx(undeclared(), CELL.init(), inputs=INPUTS, recurrent="scan")
    assert "c_all" in [output.name for output in model.graph.output]

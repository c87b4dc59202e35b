"""Nets as PyText exports them: words are numbered by a frozen index, which a database stores or the init net fills.

The database is what real Caffe2 1.9.1's predictor exporter wrote, and the numbers are what it computed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from conformance.recording import operator
from support.paths import DATA

from caffe2_backend import Predictor, Workspace, to_netdef
from caffe2_bridge import Model, load, save
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_cli.commands import main
from caffe2_frontend import save_onnx, to_onnx

DATABASE = DATA / "pytext/predictor.minidb"
INPUT = "feat_str:value"
WORDS = np.array([["a", "zz"], ["c", "<unk>"], ["b", "b"]], object)
IDS = [2, 0, 4, 1, 3, 3]
EXPECTED = np.array([[1.240247, 0.05453038], [0.8767997, -0.38533103]], np.float32)


def stored() -> Model:
    return load(DATABASE)


def filled() -> Model:
    """Return the same model, whose init net fills the index."""
    model = stored()
    init = NetDef(name="init")
    init.op.extend(op for op in model.init_net.op if op.output[0] not in ("feat_index", "feat_index:keys"))
    words = ["<unk>", "a", "b", "c"]
    init.op.extend([
        operator("GivenTensorStringFill", [], ["feat_index_vocab"], shape=[4], values=words),
        operator("StringIndexCreate", [], ["feat_index"]),
        operator("IndexLoad", ["feat_index", "feat_index_vocab"], ["feat_index"], skip_first_entry=0),
        operator("IndexFreeze", ["feat_index"], ["feat_index"]),
    ])  # fmt: skip
    return Model.of(model.predict_net, init)


FORMS = pytest.mark.parametrize("form", [stored, filled])


@FORMS
def test_export(form: Any, tmp_path: Path) -> None:
    model = to_onnx(form(), inputs={INPUT: ("string", ("T", "N"))})
    save_onnx(model, tmp_path / "model.onnx")
    encoders = [node for node in model.graph.node if node.op_type == "LabelEncoder"]
    assert [node.domain for node in encoders] == ["ai.onnx.ml"]
    np.testing.assert_allclose(Predictor(tmp_path / "model.onnx").run({INPUT: WORDS})["y"], EXPECTED, rtol=1e-5)
    back = to_netdef(model)
    np.testing.assert_allclose(Predictor(back).run({INPUT: WORDS})["y"], EXPECTED, rtol=1e-5)


@FORMS
def test_a_part_of_the_net(form: Any) -> None:
    model = to_onnx(form(), inputs={INPUT: ("string", ("T", "N"))}, outputs=["ids"])
    assert [value.name for value in model.graph.input] == [INPUT]
    assert not model.graph.initializer or all(each.name.startswith("const") for each in model.graph.initializer)


@FORMS
def test_run(form: Any) -> None:
    model = form()
    np.testing.assert_allclose(Predictor(model).run({INPUT: WORDS})["y"], EXPECTED, rtol=1e-5)
    workspace = Workspace()
    workspace.run_net_once(model.init_net)
    workspace.feed(INPUT, WORDS)
    workspace.run_net_once(model.predict_net)
    np.testing.assert_array_equal(workspace.fetch("ids"), IDS)
    np.testing.assert_allclose(workspace.fetch("y"), EXPECTED, rtol=1e-5)


@FORMS
@pytest.mark.parametrize("layout", ["pb", "pbtxt", "minidb"])
def test_save(form: Any, layout: str, tmp_path: Path) -> None:
    save(form(), tmp_path / "model", layout)
    again = load(tmp_path / "model")
    assert again.inputs == (INPUT,)
    np.testing.assert_allclose(Predictor(again).run({INPUT: WORDS})["y"], EXPECTED, rtol=1e-5)


def test_commands(tmp_path: Path) -> None:
    target = tmp_path / "model.onnx"
    assert CliRunner().invoke(main, ["check", str(DATABASE)]).exit_code == 0
    assert CliRunner().invoke(main, ["export", str(DATABASE), "-o", str(target)]).exit_code == 0
    (value,) = onnx.ModelProto.FromString(target.read_bytes()).graph.input
    assert (value.name, value.type.tensor_type.elem_type) == (INPUT, onnx.TensorProto.STRING)
    result = CliRunner().invoke(main, ["validate", str(DATABASE)])
    assert result.exit_code == 0, result.output

"""What export, import and convert print of what they did. Modules: exported, verification, skipped."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.cells import fills
from support.commands import call
from support.nets import net, op
from support.paths import CHAR_RNN

from caffe2_bridge import Model, load, save
from caffe2_cli.exported import ExportedModel
from caffe2_frontend import ExportOptions, convert

FORMS = [("auto", "LSTM"), ("fused", "LSTM"), ("scan", "Scan"), ("loop", "Loop")]


@pytest.mark.parametrize(("recurrent", "form"), FORMS)
def test_the_form_of_each_recurrent_net(recurrent: str, form: str) -> None:
    described = ExportedModel.of(convert(load(CHAR_RNN), options=ExportOptions(recurrent=recurrent)))  # type: ignore[arg-type]
    assert dict(described.recurrent) == {"char_rnn_1[1] RecurrentNetwork": form}
    assert described.lines()[:2] == ["opset 20", "input   input_blob: float32[T,N,94]"]
    assert f"char_rnn_1[1] RecurrentNetwork: {form}" in described.lines()


def test_the_report_of_an_export(tmp_path: Path) -> None:
    found = json.loads(call("export", CHAR_RNN, "-o", tmp_path / "m.onnx", "--json").stdout)
    assert found["inputs"][0] == {"name": "input_blob", "dtype": "float32", "dims": ["T", "N", 94]}
    assert found["files"] == [str(tmp_path / "m.onnx")]
    assert found["seconds"] > 0


def layer(folder: Path, scale: float = 1) -> Path:
    ops = [op("FC", "x w b", "h"), op("Relu", "h", "y")]
    weights = {"w": scale * np.ones((2, 3), np.float32), "b": np.zeros(2, np.float32)}
    save(Model.of(net(*ops, inputs="x w b"), fills(weights)), folder)
    return folder


def test_what_was_written_is_verified(tmp_path: Path) -> None:
    model = layer(tmp_path / "model")
    for words in (
        ("export", model, "-o", tmp_path / "m.onnx"),
        ("import", tmp_path / "m.onnx", "-o", tmp_path / "net"),
        ("convert", model, "-o", tmp_path / "m.minidb", "--format", "minidb"),
    ):
        result = call(*words, "--verify")
        assert (result.exit_code, "verified: what was written agrees" in result.stdout) == (0, True), result.output
        assert json.loads(call(*words, "--verify", "--json").stdout)["verdict"] == "agree"


def test_a_difference_is_a_no(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, other = layer(tmp_path / "model"), layer(tmp_path / "other", 2)
    monkeypatch.setattr(
        "caffe2_cli.subcommands.convert.save", lambda _, target, layout: save(load(other), target, layout)
    )
    result = call("convert", model, "-o", tmp_path / "back", "--verify")
    assert result.exit_code == 1
    assert "disagree" in result.stdout
    refused = call("convert", model, "-o", tmp_path / "w.npz", "--verify")
    assert (refused.exit_code, "weights alone" in refused.stderr) == (2, True)


def test_discovery_lists_what_it_skips(tmp_path: Path) -> None:
    layer(tmp_path / "zoo" / "a")
    for index in range(25):
        (tmp_path / "zoo" / f"notes{index:02}.txt").write_text("no model")
    result = call("batch", "discover", tmp_path / "zoo", "-o", tmp_path / "models.toml")
    lines = result.stderr.splitlines()
    assert result.exit_code == 0, result.output
    assert lines[0].startswith("skipped: notes00.txt: ")
    assert len([line for line in lines if line.startswith("skipped: notes")]) == 20
    assert "skipped: 5 more files, which --json lists:" in lines, lines[20:]
    found = json.loads(call("batch", "discover", tmp_path / "zoo", "-o", tmp_path / "m.json", "--json").stdout)
    assert len(found["skipped"]) == 26
    assert found["added"] == ["a"]

"""The packages elsewhere than on Linux, as far as Linux can show it: without what Windows or WebAssembly lacks."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.paths import CHAR_RNN

from caffe2_bridge import load, save

SUPPORT = Path(__file__).parents[1] / "support"


def run(stand_in: str, *paths: Path) -> str:
    command = [sys.executable, str(SUPPORT / stand_in), *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - this Python
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_models_convert_run_and_are_saved_without_what_windows_lacks(tmp_path: Path) -> None:
    model = shutil.copytree(CHAR_RNN, tmp_path / "char_rnn")
    folder = tmp_path / "written"
    folder.mkdir()
    assert run("windows.py", model, folder).endswith("used\n")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["pb", "minidb"])
def test_the_functions_for_pages_work_without_what_webassembly_lacks(form: str, tmp_path: Path) -> None:
    files = sorted(CHAR_RNN.glob("*.pb"))
    if form == "minidb":
        files = [tmp_path / "char_rnn.minidb"]
        save(load(CHAR_RNN), files[0], format="minidb")
    found = json.loads(run("webassembly.py", *files))
    assert found["found"] == {
        "form": "Caffe2", "covered": True, "summary": "8 operators convert; covered", "findings": []
    }  # fmt: skip
    assert found["inputs"] == {
        "input_blob": [6, 3, 94], "seq_lengths": [3], "hidden_init": [1, 3, 192], "cell_init": [1, 3, 192]
    }  # fmt: skip
    assert found["drawn"]
    assert found["drawn of the export"]
    assert found["exported"]["model.onnx"] > 950_000
    assert found["found in the export"]["form"] == "ONNX"
    assert sorted(found["imported"]) == ["init_net.pb", "predict_net.pb"]
    assert found["imported modules"] == []

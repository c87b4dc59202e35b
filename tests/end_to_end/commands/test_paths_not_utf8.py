"""Every command takes paths that are not UTF-8, and reports them."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from support.commands import call
from support.paths import CHAR_RNN
from support.training import PROGRAMS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="names are UTF-8 on this system")
PAIR = ("--against", "workspace", "--against", "onnxruntime-cpu")


def odd(folder: Path, name: str) -> Path:
    return folder / os.fsdecode(b"\xff\xe9" + name.encode())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(CHAR_RNN, odd(tmp_path, "models") / "m")
    return odd(tmp_path, "models")


def succeed(*words: object) -> str:
    result = call(*words)
    assert result.exit_code == 0, (words, result.output, result.exception)
    return result.stdout


def test_caffe2_models(folder: Path) -> None:
    model = folder / "m"
    for words in (("check", model), ("show", model), ("profile", model, "-o", odd(folder, "p.json"), "--runs", 1)):
        succeed(*words)
    succeed("validate", model, *PAIR, "--report", odd(folder, "r.html"), "--repro", odd(folder, "repro"))
    assert "\\udcff" in json.dumps(json.loads(succeed("validate", model, *PAIR, "--json")))
    assert json.loads(succeed("check", model, "--json"))["findings"] == []
    for form in ("pb", "pbtxt", "minidb", "lmdb", "leveldb"):
        pytest.importorskip({"lmdb": "lmdb", "leveldb": "plyvel"}.get(form, "numpy"))
        other = odd(folder, form)
        for _ in range(2):
            succeed("convert", model, other, "--format", form)
        succeed("check", other, "--json")


@pytest.mark.parametrize("external", [(), ("--external-data", 100)])
def test_onnx_models(folder: Path, external: tuple[object, ...]) -> None:
    model = odd(folder, "m.onnx")
    succeed("export", folder / "m", "-o", model, *external)
    succeed("show", model)
    succeed("import", model, "-o", odd(folder, "imported"))
    succeed("run", model, "--random-inputs", "-o", odd(folder, "out.npz"))
    assert json.loads(succeed("validate", model, *PAIR, "--json"))
    assert json.loads(succeed("validate", folder / "m", "--other", model, "--json"))


def test_training(folder: Path) -> None:
    shutil.copytree(PROGRAMS / "mlp_adam", odd(folder, "program"))
    program = odd(folder, "program")
    words = ("train", program / "train_net.pb", "--init", program / "init_net.pb", "--inputs", program / "feeds.npz")
    succeed(*words, "--steps", 2, "-o", odd(folder, "out"), "--checkpoint-every", 1)
    succeed(*words, "--steps", 3, "-o", odd(folder, "out"), "--resume", odd(folder, "out"))


@pytest.mark.parametrize("command", ["check", "show", "validate", "import", "export", "run", "profile", "convert"])
def test_what_is_not_there(folder: Path, command: str) -> None:
    missing, out = odd(folder, "missing.onnx"), odd(folder, "out")
    where = {"check": (), "show": (), "validate": (), "convert": (out,)}.get(command, ("-o", out))
    result = call(command, missing, *where)
    assert result.exit_code in {1, 2}
    assert "\\udcff\\udce9missing.onnx" in result.stderr

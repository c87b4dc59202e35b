"""Python files of the current folder: no command runs them, nor do the processes that commands start."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import numpy as np
import pytest
from onnx import parser
from support.training import classifier_data, linear_classifier

from caffe2_bridge import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_cli.commands import COMMANDS
from caffe2_fleet import ModelTask
from caffe2_fleet.job import Job
from caffe2_fleet.process.execute import execute
from caffe2_fleet.process.pool import ProcessPool
from caffe2_frontend import save_onnx, to_onnx
from caffe2_validation.diagnose.optimizations import _modified
from caffe2_validation.options import ValidationOptions
from caffe2_validation.runtimes.install import install_oracle
from caffe2_validation.runtimes.onnx_runtime import OnnxRuntime
from caffe2_validation.runtimes.real_caffe2 import find_python

# The script that pip installs, whose own folder is first on the path.
SCRIPT = """
import sys
from caffe2_cli.commands import main
if __name__ == "__main__":
    sys.exit(main(prog_name="caffe2-bridge"))
"""
# What a planted file does: it leaves a trace, and fails.
PLANTED = """
import os
os.close(os.open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "RAN " + __name__), os.O_CREAT))
raise ImportError("planted")
"""
AGAINST = ("--against", "workspace", "--against", "onnxruntime-cpu")
# Each command, with words for which its exit code is 0.
WORDS = {
    "batch": ("zoo", "-o", "out", *AGAINST),
    "check": ("zoo/relu", "--input", "x=float32[N,3]"),
    "convert": ("zoo/relu", "text", "--format", "pbtxt"),
    "demo": (),
    "doctor": (),
    "export": ("zoo/relu", "--input", "x=float32[N,3]", "-o", "relu.onnx"),
    "import": ("x.onnx", "-o", "imported"),
    "ops": (),
    "package": ("zoo/relu", "--input", "x=float32[N,3]", "--for", "web", "-o", "served", "--name", "relu"),
    "profile": ("zoo/relu", "-o", "profile.html"),
    "python": (
        "--caffe2",
        "copy",
        "programs/program.py",
    ),
    "run": ("zoo/relu", "--inputs", "x.npz", "-o", "y.npz"),
    "show": ("zoo/relu",),
    "train": ("train", "--inputs", "data.npz", "--batch-size", "8", "--steps", "2", "-o", "trained"),
    "validate": ("zoo/relu", *AGAINST),
}


@cache
def planted_names() -> set[str]:
    """Return the names of all modules that a process may import."""
    packages = {name for name in packages_distributions() if name.isidentifier()}
    return {*sys.stdlib_module_names, *packages, "caffe2", "sitecustomize", "usercustomize"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a file for every module that a process may import."""
    here = tmp_path / "here"
    here.mkdir()
    for name in planted_names():
        (here / f"{name}.py").write_text(PLANTED)
    monkeypatch.chdir(here)
    return here


@pytest.fixture
def models(folder: Path) -> Path:
    op = OperatorDef(type="Relu", input=["x"], output=["y"])
    net = NetDef(name="relu", op=[op], external_input=["x"], external_output=["y"])
    train, init = linear_classifier()
    for name, pair in {"zoo/relu": (net, NetDef(name="init")), "train": (train, init)}.items():
        (folder / name).mkdir(parents=True)
        for kind, part in zip(("predict_net", "init_net"), pair, strict=True):
            (folder / name / f"{kind}.pb").write_bytes(part.SerializeToString())
    save_onnx(to_onnx(Model.of(net), inputs={"x": ("float32", ("N", 3))}), folder / "x.onnx")
    np.savez(folder / "x.npz", x=np.ones((2, 3), np.float32))
    np.savez(folder / "data.npz", **classifier_data(32))  # type: ignore[arg-type] # arrays by name
    (folder / "copy" / "caffe2" / "python").mkdir(parents=True)
    (folder / "copy" / "caffe2" / "python" / "core.py").touch()
    (folder / "programs").mkdir()
    (folder / "programs" / "program.py").write_text("import html, json, numpy")
    return folder


def traces(folder: Path) -> list[str]:
    return [file.name for file in folder.glob("RAN *")]


def run_command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process, as a user does."""
    script = folder.parent / "caffe2-bridge"
    script.write_text(SCRIPT)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, str(script), *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)  # noqa: S603 - this Python


def test_planted_files_run_in_a_python_that_is_not_isolated(folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", "import html"], capture_output=True, check=False)
    assert done.returncode
    assert traces(folder)  # Python 3.13 imports linecache before it


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - {"oracle"}))
def test_no_command_runs_them(command: str, models: Path) -> None:
    done = run_command(models, command, *WORDS[command])
    assert traces(models) == []
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_no_worker_of_a_cluster_runs_them(models: Path) -> None:
    pytest.importorskip("distributed")
    done = run_command(models, *("batch", *WORDS["batch"], "--engine", "dask"))
    assert traces(models) == []
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_installation_of_real_caffe2_runs_none(folder: Path) -> None:
    done = run_command(folder, "oracle", "install", str(folder / "caffe2"), "--python", sys.executable)
    assert traces(folder) == []
    assert "is no CPython 3.8" in done.stderr


@pytest.mark.oracle
def test_real_caffe2_runs_none(models: Path) -> None:
    done = run_command(models, "validate", "zoo/relu", "--against", "caffe2", "--against", "onnxruntime-cpu")
    assert traces(models) == []
    assert done.returncode == 0, done.stdout + done.stderr
    python = find_python()
    assert python is not None
    assert install_oracle(python.parents[1]) == python
    assert traces(models) == []


def test_the_search_for_optimizations_runs_none(folder: Path) -> None:
    graph = "<ir_version: 8, opset_import: ['' : 18]> g (float[2] x) => (float[2] z) { y = Identity(x) z = Relu(y) }"
    model = parser.parse_model(graph.replace("'", '"'))
    assert _modified(OnnxRuntime("cpu"), model)
    assert traces(folder) == []


def test_python_callers_run_none(folder: Path, tmp_path: Path) -> None:
    pool = ProcessPool()
    result = execute(Job(ModelTask("none", str(tmp_path / "none.pb")), ValidationOptions().to_json()), pool)
    pool.stop()
    assert result.verdict == "could not run"
    assert traces(folder) == []

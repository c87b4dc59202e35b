"""The command ``doctor``."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from support.commands import call

from caffe2_cli import installation
from caffe2_cli.installation import Installation, Package, Problem, Program

WHOLE = Installation(
    version="1.0",
    python="3.12.1",
    platform="Linux",
    packages=(
        Package("numpy", "", ">=2.0", "2.4.0", "ok", "pip install 'numpy>=2.0'"),
        Package("lmdb", "db", ">=3.0", "", "missing", "pip install 'caffe2-bridge[db]'"),
    ),
    programs=(
        Program("dot", "show --svg", "", "apt install graphviz"),
        Program("node", "validate", "/bin/node", "nodejs.org"),
    ),
    providers=("CUDAExecutionProvider", "CPUExecutionProvider"),
    gpus=({"name": "H100", "major": 9, "minor": 0, "totalGlobalMem": 80 << 30},),
    no_gpu="",
    caffe2={},
    no_caffe2="real Caffe2 is not installed",
    problems=(),
)


def test_a_whole_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "inspect_installation", lambda: WHOLE)
    result = call("doctor")
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0] == "caffe2-bridge 1.0, Python 3.12.1, Linux"
    assert any("lmdb" in line and "missing" in line and "pip install 'caffe2-bridge[db]'" in line for line in lines)
    assert not any("pip install 'numpy" in line for line in lines)
    assert any(line.split() == ["dot", "show", "--svg", "missing", "apt", "install", "graphviz"] for line in lines)
    assert any(line.split() == ["node", "validate", "/bin/node"] for line in lines)
    assert "onnxruntime: CUDAExecutionProvider, CPUExecutionProvider" in lines
    assert "cuda:0: H100, 80 GiB, compute capability 9.0" in lines
    assert "real Caffe2 (optional): real Caffe2 is not installed" in lines
    assert lines[-1] == "No problems found."


def test_problems_are_printed_with_their_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    found = replace(WHOLE, providers=(), gpus=(), problems=(Problem("it is broken", "pip install it"),))
    monkeypatch.setattr(installation, "inspect_installation", lambda: found)
    result = call("doctor")
    assert result.exit_code == 1
    assert result.output.endswith("problem: it is broken\n  pip install it\n")
    assert "onnxruntime: cannot be imported" in result.output
    result = call("doctor", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["problems"] == [{"reason": "it is broken", "cure": "pip install it"}]


def test_this_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAFFE2_PYTHON", "/nowhere/python")
    found = json.loads(call("doctor", "--json").stdout)
    assert found["version"]
    assert {package["state"] for package in found["packages"] if not package["extra"]} == {"ok"}

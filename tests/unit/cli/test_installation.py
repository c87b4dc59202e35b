"""What is installed, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from caffe2_bridge.diagnostics import RunError
from caffe2_cli import installation
from caffe2_cli.installation import Package, find_packages, inspect_installation

REQUIREMENTS = [
    "onnx>=1.22",
    "numpy>=2.0",
    "onnxruntime>=1.31; extra == 'cpu'",
    'onnxruntime-gpu>=1.31; extra == "gpu"',
    "plyvel>=1.5; (python_version < '3') and extra == 'db'",
    "lmdb>=3.0; extra == 'db'",
]
INSTALLED = {"onnx": "1.23.2", "numpy": "2.4.0", "onnxruntime": "1.32.0rc1"}


def put(monkeypatch: pytest.MonkeyPatch, versions: Mapping[str, str]) -> None:
    """Pretend that these packages are installed and that the project requires ``REQUIREMENTS``."""
    monkeypatch.setattr(installation, "requires", lambda _: REQUIREMENTS)
    monkeypatch.setattr(installation, "_installed", lambda name: versions.get(name, ""))
    monkeypatch.setenv("CAFFE2_PYTHON", "/nowhere/python")


def problems() -> list[tuple[str, str]]:
    return [(problem.reason, problem.cure) for problem in inspect_installation().problems]


def test_required_packages_come_first_and_markers_are_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, INSTALLED)
    assert [*find_packages(REQUIREMENTS)] == [
        Package("numpy", "", ">=2.0", "2.4.0", "ok", "pip install 'numpy>=2.0'"),
        Package("onnx", "", ">=1.22", "1.23.2", "ok", "pip install 'onnx>=1.22'"),
        Package("onnxruntime", "cpu", ">=1.31", "1.32.0rc1", "ok", "pip install 'caffe2-bridge[cpu]'"),
        Package("lmdb", "db", ">=3.0", "", "missing", "pip install 'caffe2-bridge[db]'"),
        Package(
            "onnxruntime-gpu", "gpu", ">=1.31", "", "missing",
            "pip uninstall onnxruntime; pip install 'caffe2-bridge[gpu]'",
        ),
    ]  # fmt: skip


def test_a_whole_installation_has_no_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, INSTALLED)
    found = inspect_installation()
    assert found.problems == ()
    assert "CPUExecutionProvider" in found.providers
    assert found.no_caffe2.startswith("Python /nowhere/python does not exist")
    assert found.caffe2 == {}
    assert found.to_dict()["packages"][0]["command"] == "pip install 'numpy>=2.0'"


def test_programs_are_searched_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, INSTALLED)
    (tmp_path / "dot").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert [(each.name, each.path) for each in inspect_installation().programs] == [
        ("dot", str(tmp_path / "dot")), ("node", ""),
    ]  # fmt: skip


def test_missing_and_unsupported_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, {"onnx": "1.20.0"})
    assert problems() == [
        ("numpy is not installed", "pip install 'numpy>=2.0'"),
        ("onnx 1.20.0 is not supported, >=1.22 is", "pip install 'onnx>=1.22'"),
        ("onnxruntime is not installed", "pip install 'caffe2-bridge[cpu]', or [gpu] for CUDA"),
    ]


def test_two_runtimes_overwrite_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, INSTALLED | {"onnxruntime-gpu": "1.31.0"})
    ((reason, cure),) = problems()
    assert reason == "onnxruntime and onnxruntime-gpu overwrite each other's files: keep one"
    assert cure.startswith("pip uninstall onnxruntime onnxruntime-gpu; pip install 'caffe2-bridge[cpu]'")


def test_a_runtime_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged() -> None:
        raise RunError("onnxruntime is damaged")

    put(monkeypatch, INSTALLED)
    monkeypatch.setattr(installation, "onnxruntime", damaged)
    assert problems() == [("onnxruntime is damaged", "pip install --force-reinstall onnxruntime")]


@pytest.mark.oracle
def test_real_caffe2_is_asked() -> None:
    found = inspect_installation()
    assert found.no_caffe2 == ""
    assert found.caffe2["caffe2 of torch"].startswith("1.9.1")

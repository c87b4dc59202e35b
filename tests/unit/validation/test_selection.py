"""Runtimes that are asked for and absent."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.nets import net, op

from caffe2_bridge import Model, RunError, save
from caffe2_bridge.diagnostics import OptionError
from caffe2_cli.commands import main
from caffe2_validation.options import ValidationOptions
from caffe2_validation.runtimes import find_runtime, present_runtimes, real_caffe2
from caffe2_validation.selection import select_runtimes


@pytest.fixture
def model(tmp_path: Path) -> Path:
    save(Model.of(net(op("Relu", "x", "y"))), tmp_path / "models" / "relu")
    return tmp_path / "models" / "relu"


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process of an earlier test, whose Python was another."""
    real_caffe2.shared_caffe2.cache_clear()
    monkeypatch.delenv("CAFFE2_PYTHON", raising=False)


def pythons(folder: Path) -> list[tuple[Path, str]]:
    plain = folder / "plain"
    plain.write_text("")
    return [
        (folder / "nothing", "does not exist"),
        (plain, "is not executable"),
        (Path(sys.executable), "cannot be started"),  # a Python without Caffe2
    ]


def test_a_wrong_caffe2_python_is_an_error(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for python, reason in pythons(tmp_path):
        real_caffe2.shared_caffe2.cache_clear()
        result = CliRunner().invoke(main, ["validate", str(model), "--caffe2-python", str(python)])
        assert (result.exit_code, reason in result.output) == (2, True), result.output
        monkeypatch.setenv("CAFFE2_PYTHON", str(python))
        real_caffe2.shared_caffe2.cache_clear()
        for words in (["validate", str(model)], ["validate", str(model), "--matrix"], ["batch", str(model.parent)]):
            result = CliRunner().invoke(main, words)
            assert (result.exit_code, reason in result.output) == (2, True), (words, result.output)
        monkeypatch.delenv("CAFFE2_PYTHON")


def test_a_default_runtime_that_nobody_asks_for_may_be_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAFFE2_ORACLE_DIR", str(tmp_path))
    found, missing = select_runtimes(ValidationOptions(), "caffe2")
    assert "caffe2" not in [runtime.name for runtime in found]
    assert "is not installed" in missing["caffe2"]
    assert "caffe2" not in [runtime.name for runtime in present_runtimes()]
    with pytest.raises(RunError, match="is not installed"):
        select_runtimes(ValidationOptions(runtimes=("caffe2",)), "caffe2")


def test_a_runtime_that_is_given_twice_proves_nothing() -> None:
    given = find_runtime("workspace")
    for runtimes in ((given, given), ("workspace", "workspace")):
        with pytest.raises(OptionError, match="runtime workspace is named twice, and agrees with itself"):
            select_runtimes(ValidationOptions(runtimes=runtimes), "caffe2")
    assert select_runtimes(ValidationOptions(runtimes=(given, "onnx-reference")), "caffe2")[0][0] is given


def test_a_wrong_caffe2_python_does_not_matter_to_other_runtimes(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAFFE2_PYTHON", str(tmp_path / "nothing"))
    words = ["validate", str(model), "--against", "workspace", "--against", "onnxruntime-cpu"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output


def test_onnxruntime_that_is_absent(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RunError("onnxruntime is not installed")

    monkeypatch.setattr("caffe2_validation.runtimes.onnx_runtime.real_device", refuse)
    result = CliRunner().invoke(main, ["validate", str(model), "--against", "onnxruntime-cpu"])
    assert (result.exit_code, "onnxruntime is not installed" in result.output) == (2, True)


def test_tolerances_on_the_command_line(model: Path) -> None:
    words = ["validate", str(model), "--against", "workspace", "--against", "onnxruntime-cpu", "--json"]
    result = CliRunner().invoke(main, [*words, "--rtol", "0.25", "--atol", "0.5"])
    assert '"rtol": 0.25' in result.output
    assert '"atol": 0.5' in result.output
    assert CliRunner().invoke(main, [*words, "--rtol", "-1"]).exit_code == 2

"""What all commands share. Modules: command, settings, exit_codes, echo."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from support.commands import call
from support.nets import net, op

from caffe2_bridge import Model, save
from caffe2_cli import model_source
from caffe2_cli.exit_codes import FAILED, INTERRUPTED, NO, YES

RED, YELLOW, CYAN = "\x1b[31m\x1b[1m", "\x1b[33m\x1b[1m", "\x1b[36m"


@pytest.fixture
def relu(tmp_path: Path) -> Path:
    save(Model(net(op("Relu", "x", "y"))), tmp_path / "relu")
    return tmp_path / "relu"


@pytest.fixture
def unknown(tmp_path: Path) -> Path:
    """A net that does not convert."""
    save(Model(net(op("Foo", "x", "y"))), tmp_path / "unknown")
    return tmp_path / "unknown"


@pytest.mark.parametrize("command", ["check", "export", "run", "show", "validate", "profile", "convert", "package"])
def test_a_missing_file_could_not_be_read(command: str, tmp_path: Path) -> None:
    more = {"check": [], "show": [], "validate": [], "package": ["--for", "triton"]}.get(command)
    words = [command, tmp_path / "none", *(["-o", tmp_path / "out"] if more is None or more else []), *(more or [])]
    result = call(*words)
    assert (result.exit_code, result.stdout) == (FAILED, "")
    assert f"error: {tmp_path / 'none'}" in result.stderr


def test_a_model_that_does_not_convert_is_a_no_to_who_asks(unknown: Path, tmp_path: Path) -> None:
    shape = ("--input", "x=float32[2]")
    assert call("check", unknown, *shape).exit_code == NO
    assert call("export", unknown, *shape, "-o", tmp_path / "m.onnx").exit_code == NO
    assert call("run", unknown, "--random-inputs", *shape, "-o", tmp_path / "out.npz").exit_code == FAILED
    assert call("validate", unknown, *shape).exit_code == FAILED


def test_ctrl_c(relu: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(model_source, "load", interrupted)
    result = call("show", relu)
    assert (result.exit_code, result.stderr) == (INTERRUPTED, "interrupted\n")


def test_findings_as_json(unknown: Path, tmp_path: Path) -> None:
    for words in (("check",), ("export", "-o", tmp_path / "m.onnx")):
        result = call(words[0], unknown, *words[1:], "--input", "x=float32[2]", "--json")
        found = json.loads(result.stdout)
        assert (result.exit_code, found["schema"]) == (NO, 1)
        assert [finding["code"] for finding in found["findings"]] == ["unknown-operator"]


def test_with_json_stdout_has_the_object_alone(relu: Path, tmp_path: Path) -> None:
    shape = ("--input", "x=float32[2]")
    calls = [
        ("check", relu, *shape),
        ("export", relu, *shape, "-o", tmp_path / "m.onnx"),
        ("import", tmp_path / "m.onnx", "-o", tmp_path / "back"),
        ("convert", relu, "-o", tmp_path / "m.minidb", "--format", "minidb"),
        ("run", relu, "--random-inputs", *shape, "-o", tmp_path / "out.npz"),
        ("show", relu),
        ("ops",),
        ("profile", relu, *shape, "-o", tmp_path / "times.json", "--runs", 1),
        ("batch", "discover", tmp_path, "-o", tmp_path / "models.json"),
    ]
    for words in calls:
        result = call(*words, "--json")
        assert result.exit_code == YES, result.output
        assert json.loads(result.stdout)["schema"] == 1


def test_quiet_prints_no_line_about_what_was_done(relu: Path, tmp_path: Path) -> None:
    words = ("export", relu, "--input", "x=float32[2]", "-o", tmp_path / "m.onnx")
    for quiet in (("-q", *words), (*words, "-q"), (*words, "--quiet")):
        result = call(*quiet)
        assert (result.exit_code, result.output) == (YES, "")
    assert call("-q", "check", relu, "--input", "x=float32[2]").stdout == "1 operators convert; covered\n"
    assert "what" in call("export", relu, "--output-file", tmp_path / "m.onnx", "--what", "-q").stderr


def test_verbose_prints_the_seconds_of_stages(relu: Path) -> None:
    words = ("check", relu, "--input", "x=float32[2]")
    assert call(*words).stderr == ""
    assert call(*words, "-v").stderr.startswith("checking: ")
    assert call("--verbose", *words).stderr.endswith(" s\n")


@pytest.mark.parametrize("color", ["always", "never", "auto"])
def test_errors_warnings_and_notes_look_different(
    color: str, tmp_path: Path, unknown: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = color == "always"
    for words in (("check", tmp_path / "none"), ("check", unknown), ("explode",), ("check", "--explode")):
        result = call("--color", color, *words)
        assert (f"{RED}error:\x1b[0m" in result.stderr) is shown
        assert "error:" in result.stderr
        assert shown or "\x1b" not in result.output
    renamed = call("--color", color, "export", unknown, "--output-file", tmp_path / "m.onnx").stderr
    assert (f"{CYAN}note:\x1b[0m --output-file is the former name of --out" in renamed) is shown


def test_no_color_and_force_color(unknown: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert RED in call("check", unknown).stderr
    monkeypatch.setenv("NO_COLOR", "1")
    assert RED not in call("check", unknown).stderr
    assert RED in call("check", unknown, "--color=always").stderr


@pytest.mark.parametrize(
    ("words", "former"),
    [
        (["export", "MODEL", "--input", "x=float32[2]", "OUT.onnx"], "--output-file"),
        (["run", "MODEL", "--random-inputs", "--input", "x=float32[2]", "OUT.npz"], "--outputs"),
        (["convert", "MODEL", "--format", "minidb", "OUT"], "--output"),
        (["batch", "discover", "FOLDER", "OUT.toml"], "--output"),
    ],
)
@pytest.mark.parametrize("joined", [False, True])
def test_former_names_work(words: list[str], former: str, joined: bool, relu: Path, tmp_path: Path) -> None:
    *rest, out = words
    target = tmp_path / out
    given = [f"{former}={target}"] if joined else [former, target]
    result = call(*({"MODEL": relu, "FOLDER": tmp_path}.get(word, word) for word in rest), *given)
    assert result.exit_code == YES, result.output
    assert f"note: {former} is the former name of --out\n" in result.stderr
    assert target.is_file()


def test_version() -> None:
    assert call("-V").output == call("--version").output


def test_help_has_the_sections_of_options() -> None:
    text = call("validate", "--help").output
    titles = [line[:-1] for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles == [
        "Model", "Inputs and outputs", "Runtimes", "Conversion", "Comparison", "Results", "General", "Exit codes",
        "Example",
    ]  # fmt: skip
    assert click.unstyle(text) == text

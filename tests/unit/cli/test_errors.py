"""What commands print, whatever models hold, and how they end where this project itself is at fault."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner
from support.modules import modules

from caffe2_bridge.diagnostics import Diagnostic, Location, Severity
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_cli import model_source
from caffe2_cli.commands import main
from caffe2_cli.errors import print_diagnostics

HOSTILE = "\x1b[2J\x07\u202e"


def test_control_characters_do_not_reach_the_terminal(tmp_path: Path) -> None:
    ops = [OperatorDef(type=f"Foo{HOSTILE}", input=[HOSTILE], output=[f"y{HOSTILE}"], name=HOSTILE)]
    net = NetDef(name=f"net{HOSTILE}", op=ops, external_input=[HOSTILE], external_output=[f"y{HOSTILE}"])
    path = tmp_path / "net.pb"
    path.write_bytes(net.SerializeToString())
    for words in (["show"], ["check"], ["export", "-o", str(tmp_path / "out.onnx")], ["check", "--json"]):
        result = CliRunner().invoke(main, [words[0], str(path), *words[1:]])
        assert result.output
        assert all(char.isprintable() or char in "\n\t" for char in result.output), result.output


def test_commands_print_through_one_function() -> None:
    found = [name for name, file in modules().items() if "click.echo(" in file.read_text() and file.name != "echo.py"]
    assert found == []


def test_outputs_that_are_not_tensors(tmp_path: Path) -> None:
    onnx.save(
        onnx.parser.parse_model(
            '<ir_version: 9, opset_import: ["" : 20]> g () => (seq(float[N]) y, float[2] x) <float[2] x = {1.0, 2.0}>'
            "{ y = SplitToSequence (x) }"
        ),
        tmp_path / "m.onnx",
    )
    words = ["run", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "out.npz")]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert "output 'y' is a sequence, which an .npz file cannot hold" in result.output
    assert not (tmp_path / "out.npz").exists()
    assert CliRunner().invoke(main, [*words, "--output", "x"]).exit_code == 0
    printed = CliRunner().invoke(main, [*words[:2], "--output", "x"])
    assert (printed.exit_code, printed.stdout) == (0, "x: float32[2]\n"), printed.output
    assert CliRunner().invoke(main, words[:2]).exit_code == 2


def test_a_long_hint_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    findings = [Diagnostic("note", f"reason {i}", Location("net"), Severity.NOTE, "type this " * 30) for i in range(2)]
    print_diagnostics(findings)
    first, second = capsys.readouterr().err.splitlines()
    assert "type this" in first
    assert second == "net: note: reason 1 [note] (as above)"


def test_an_onnx_file_where_a_net_is_expected(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"\x08")
    for words in (["check"], ["convert", "-o", str(tmp_path / "out")]):
        result = CliRunner().invoke(main, [words[0], str(tmp_path / "m.onnx"), *words[1:]])
        assert result.exit_code == 2
        assert "m.onnx is an ONNX model, and MODEL must be a Caffe2 model" in result.output


def test_a_fault_of_our_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **_options: object) -> None:
        raise ZeroDivisionError("none")

    path = tmp_path / "net.pb"
    path.write_bytes(NetDef(op=[OperatorDef(type="Relu", input=["x"], output=["y"])]).SerializeToString())
    monkeypatch.setattr(model_source, "load", broken)
    monkeypatch.delenv("CAFFE2_BRIDGE_VERIFY")
    result = CliRunner().invoke(main, ["show", str(path)])
    assert result.exit_code == 2
    assert result.stderr.startswith("show: error: internal error at caffe2_cli/")
    assert "ZeroDivisionError: none [internal-error] (this is a fault of caffe2-bridge" in result.stderr
    result = CliRunner().invoke(main, ["--debug", "show", str(path)])
    assert isinstance(result.exception, ZeroDivisionError)


def test_a_lack_of_memory_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **_options: object) -> None:
        raise MemoryError("Unable to allocate 9 TiB")

    path = tmp_path / "net.pb"
    path.write_bytes(NetDef(op=[OperatorDef(type="Relu", input=["x"], output=["y"])]).SerializeToString())
    monkeypatch.setattr(model_source, "load", broken)
    result = CliRunner().invoke(main, ["show", str(path)])
    assert (result.exit_code, result.output) == (
        2,
        "error: show: there is not enough memory: Unable to allocate 9 TiB\n",
    )

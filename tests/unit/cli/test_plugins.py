"""``--plugin``: modules of the user's own that register operators.

Modules: plugins.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from conformance.recording import operator
from onnx import parser

from caffe2_backend.ops import REGISTERED as IMPORTERS
from caffe2_bridge import Model, save
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_cli.commands import main
from caffe2_frontend.ops.index import REGISTERED as CONVERTERS

PLUGIN = """
from caffe2_backend import register_importer
from caffe2_frontend import register_converter

@register_converter("OwnClamp")
def convert(op):
    x = op.input(0)
    return op.emit("Min", x, op.const(8, x))

@register_importer("my.domain::Clamp")
def convert_back(op):
    return op.emit("OwnClamp", op.input(0))
"""
MODEL = """<ir_version: 9, opset_import: ["": 20, "my.domain": 1]> g (float[N,3] x) => (float[N,3] y) {
  y = my.domain.Clamp(x) }"""


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    yield
    CONVERTERS.clear()
    IMPORTERS.clear()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    net = NetDef(name="n", op=[operator("OwnClamp", ["x"], ["y"])], external_input=["x"], external_output=["y"])
    save(Model(net), tmp_path / "net")
    (tmp_path / "own.py").write_text(PLUGIN)
    (tmp_path / "model.onnx").write_bytes(parser.parse_model(MODEL).SerializeToString())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(main, words)


@pytest.mark.parametrize("name", ["own.py", "own"])
def test_its_operators_convert(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = ["--input", "x=float32[N,3]"]
    against = ["--against", "onnxruntime-cpu", "--against", "onnx-reference"]
    assert run("check", "net", *given).exit_code == 1
    monkeypatch.syspath_prepend(folder)
    for words in (
        ["check", "net", *given],
        ["export", "net", *given, "-o", "out.onnx"],
        ["run", "net", "--random-inputs", *given, "-o", "y.npz"],
        ["import", "model.onnx", "-o", "back"],
        ["validate", "net", *given, *against],
    ):
        done = run(*words, "--plugin", name)
        assert done.exit_code == 0, done.output
        CONVERTERS.clear()
        IMPORTERS.clear()
        sys.modules.pop("own", None)
    assert "OwnClamp" in run("ops", "--plugin", "own.py").output


def test_the_processes_of_a_batch_import_it(folder: Path) -> None:
    (folder / "models.toml").write_text('[[model]]\npath = "net"\ninputs = { x = "float32[N,3]" }')
    against = ["--against", "onnxruntime-cpu", "--against", "onnx-reference"]
    words = ["batch", "models.toml", "-o", "out", *against]
    assert "not covered" in run(*words).output
    assert run(*words, "--plugin", "own.py").exit_code == 0
    times = (folder / "out" / "onnx" / "net.onnx").stat().st_mtime_ns
    assert run(*words, "--plugin", "own.py").exit_code == 0
    assert (folder / "out" / "onnx" / "net.onnx").stat().st_mtime_ns == times
    (folder / "own.py").write_text(PLUGIN.replace("const(8", "const(7"))
    assert run(*words, "--plugin", "own.py").exit_code == 0
    assert (folder / "out" / "onnx" / "net.onnx").stat().st_mtime_ns != times


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("absent.py", "absent.py: FileNotFoundError"),
        ("no_such_module_of_mine", "ModuleNotFoundError: No module named 'no_such_module_of_mine'"),
        ("faulty.py", "faulty.py: ZeroDivisionError: division by zero"),
    ],
)
def test_one_that_cannot_be_imported_is_a_usage_error(name: str, reason: str) -> None:
    Path("faulty.py").write_text("1 / 0")
    done = run("check", "net", "--plugin", name)
    assert done.exit_code == 2
    assert reason in done.output

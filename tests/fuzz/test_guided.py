"""The search by code: its harness with a stand-in for Atheris, and with Atheris where it is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.paths import CHAR_RNN, ROOT

from fuzz.guided import cli

STAND_IN = """
import contextlib
@contextlib.contextmanager
def instrument_imports(include):
    yield
def Setup(words, call):
    global run
    run = call
def Fuzz():
    for data in (b"", bytes([10, 255]), b"x" * 100_000):
        run(data)
    print("searched")
"""
NET = (CHAR_RNN / "predict_net.pb").read_bytes()


def python(*words: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    folders = [ROOT / name for name in ("bridge", "frontend", "backend", "pytorch", "tests")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [*([path] if path else []), *folders]))}
    command = [sys.executable, "-P", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - this Python


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    (tmp_path / "atheris.py").write_text(STAND_IN)
    return tmp_path


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "0000").write_bytes(NET)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("kind", cli.KINDS)
def test_errors_of_the_project_are_no_findings(kind: str, stand_in: Path, corpus: Path) -> None:
    done = python("-m", "fuzz.guided.harness", kind, str(corpus), "-runs=1", path=stand_in)
    assert (done.returncode, done.stdout) == (0, "searched\n"), done.stderr


@pytest.mark.slow
def test_another_error_is_a_finding(stand_in: Path) -> None:
    code = "from fuzz.guided import harness\nharness._KINDS['net'] = lambda data: 1 / 0\nharness.harness('net')(b'x')"
    done = python("-c", code, path=stand_in)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not find_spec("atheris"), reason="Atheris is not installed")
def test_atheris_sees_the_code_of_the_project(corpus: Path) -> None:
    done = python("-m", "fuzz.guided.harness", "net", str(corpus), "-runs=50", "-seed=1")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "INFO: Instrumenting caffe2_frontend.lowering.lower" in done.stderr


def test_what_is_not_installed_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "find_spec", lambda _: None)
    done = CliRunner().invoke(cli.main, [])
    assert done.exit_code == 1
    assert "pip install atheris" in done.output


@pytest.mark.slow
def test_the_corpus_is_of_seeds(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli.main, ["--kind", "net", "--write-only", "--corpus", str(tmp_path / "made")])
    assert done.exit_code == 0
    assert len(list((tmp_path / "made").iterdir())) > 100

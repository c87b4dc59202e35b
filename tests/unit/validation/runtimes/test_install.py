"""Installing real Caffe2: what is there is used, what is missing is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from caffe2_bridge import RunError
from caffe2_cli.commands import main
from caffe2_validation.runtimes.install import install_oracle


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_one_that_works_stays_as_it_is(tmp_path: Path) -> None:
    python = script(tmp_path / "bin" / "python", "exit 0")
    assert install_oracle(tmp_path, "no-such-python") == python
    result = CliRunner().invoke(main, ["oracle", "install", str(tmp_path)])
    assert (result.exit_code, result.output.strip()) == (0, str(python))


def test_without_a_python_it_says_which_is_needed(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"CPython 3\.8"):
        install_oracle(tmp_path / "there", script(tmp_path / "wrong", "exit 1").as_posix())
    result = CliRunner().invoke(main, ["oracle", "install", str(tmp_path / "there"), "--python", "/no/such"])
    assert result.exit_code == 2


def test_a_failed_installation_is_told(tmp_path: Path) -> None:
    python = script(tmp_path / "python", 'if [ "$2" = -m ]; then echo no space left >&2; exit 5; fi')
    with pytest.raises(RunError, match=r"(?s)status 5.*no space left"):
        install_oracle(tmp_path / "there", str(python))

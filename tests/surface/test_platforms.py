"""The packages on systems that are not Linux, as far as Linux can show it: without what Windows lacks."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.paths import CHAR_RNN

STAND_IN = Path(__file__).parents[1] / "support" / "windows.py"


@pytest.mark.slow
def test_models_convert_run_and_are_saved_without_what_windows_lacks(tmp_path: Path) -> None:
    model = shutil.copytree(CHAR_RNN, tmp_path / "char_rnn")
    folder = tmp_path / "written"
    folder.mkdir()
    command = [sys.executable, str(STAND_IN), str(model), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - this Python
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("used\n")

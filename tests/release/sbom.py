"""The software bill of materials of a wheel: what an installation of it consists of, as CycloneDX."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from support.paths import ROOT

NAME: Final = "caffe2_bridge.cdx.json"
EXTRA: Final = "cpu"


def write_sbom(wheel: Path, target: Path) -> None:
    """Install a wheel into an environment of nothing else, and write what is in there. Raises CalledProcessError.

    The tool, of the CycloneDX project, runs in an environment of its own.
    """
    with tempfile.TemporaryDirectory() as folder:
        installed, tools = Path(folder, "installed"), Path(folder, "tools")
        _run(sys.executable, "-I", "-m", "venv", "--without-pip", str(installed))
        _run(sys.executable, "-I", "-m", "venv", str(tools))
        _run(str(tools / "bin" / "python"), "-I", "-m", "pip", "install", "--quiet", "--upgrade", "pip>=25.1")
        pip = [str(tools / "bin" / "python"), "-I", "-m", "pip", "install", "--quiet"]
        _run(*pip, "--group", f"{ROOT / 'pyproject.toml'}:release")
        _run(str(tools / "bin" / "python"), "-I", "-m", "pip", "--python", str(installed / "bin" / "python"),
             "install", "--quiet", f"{wheel}[{EXTRA}]")  # fmt: skip
        _run(
            str(tools / "bin" / "cyclonedx-py"), "environment", str(installed / "bin" / "python"),
            "--pyproject", str(ROOT / "pyproject.toml"), "--mc-type", "library", "--output-reproducible",
            "--output-format", "JSON", "--output-file", str(target),
        )  # fmt: skip


def _run(*command: str) -> None:
    subprocess.run(command, check=True)  # noqa: S603 - Pythons of environments made here

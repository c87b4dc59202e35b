"""Clean environments: the wheel in each supported Python, and the lowest versions of the dependencies."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from support.paths import CHAR_RNN, ROOT

_USE: Final = Path(__file__).with_name("use.py")
# Extras whose lowest versions are tested: not onnxruntime for GPUs, nor PyTorch.
_LOWEST_EXTRAS: Final = ("cpu", "caffe2", "db", "images")
_TOOLS: Final = ("pytest", "pytest-xdist", "hypothesis")


def find_pythons() -> dict[str, str]:
    """Return the Pythons of supported versions on this machine, on PATH or of pyenv, by version."""
    found = subprocess.run([ROOT / "scripts" / "pythons"], capture_output=True, text=True, check=True)  # noqa: S603 - ours
    return dict(line.split(" ", 1) for line in found.stdout.splitlines())


def use(python: Path, installation: Path, *, paths: Sequence[Path] = ()) -> None:
    """Use the packages that a Python has, in an empty folder; ``paths`` come first on its module search path.

    Raises CalledProcessError.
    """
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(CHAR_RNN, Path(folder, "char_rnn"))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
        script = shutil.copy(_USE, folder)
        subprocess.run(  # noqa: S603 - the Python of an environment made here
            [str(python), "-P", script, folder, str(installation)], cwd=folder, env=environment, check=True
        )


def install_and_use(base: str, wheel: Path, folder: Path) -> None:
    """Install a wheel with onnxruntime into a new environment, and use it. Raises CalledProcessError."""
    python = _environment(base, folder, [f"{wheel}[cpu]"])
    subprocess.run([str(folder / "bin" / "caffe2-bridge"), "--version"], check=True)  # noqa: S603 - installed here
    use(python, folder)


def lowest_requirements() -> list[str]:
    """Return the dependencies, and those of extras that every machine can have, at the lowest allowed versions."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *(text for extra in _LOWEST_EXTRAS for text in extras[extra])]
    return [re.sub(r">=", "==", str(Requirement(text))) for text in asked]


def test_with_lowest(folder: Path, arguments: Sequence[str]) -> int:
    """Run pytest with the lowest versions of all dependencies: its exit code. An environment that exists is used.

    The project is installed, editable: tests start processes of their own that import it.
    """
    python = folder / "bin" / "python"
    wanted, stamp = "\n".join(lowest_requirements()), folder / "installed"
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != wanted:
        _environment(sys.executable, folder, [*lowest_requirements(), *_TOOLS, "--editable", str(ROOT)])
        stamp.write_text(wanted, encoding="utf-8")
    command = [str(python), "-m", "pytest", *arguments]
    return subprocess.run(command, cwd=ROOT, check=False).returncode  # noqa: S603 - the environment made here


def _environment(base: str, folder: Path, packages: Sequence[str]) -> Path:
    python = folder / "bin" / "python"
    subprocess.run([base, "-I", "-m", "venv", "--clear", str(folder)], check=True)  # noqa: S603 - a Python of the user
    install = [str(python), "-I", "-m", "pip", "install", "--quiet", *packages]
    subprocess.run(install, check=True)  # noqa: S603 - the environment made here
    return python

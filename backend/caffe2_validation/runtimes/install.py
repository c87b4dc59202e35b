"""Real Caffe2, installed into a folder of its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from caffe2_bridge.diagnostics import RunError
from caffe2_validation.runtimes.real_caffe2 import cache_folder

# The last release of PyTorch that carries the whole of Caffe2, and what it runs with; it was built for CPython 3.8.
PACKAGES: Final = (
    "torch==1.9.1", "numpy==1.23.5", "protobuf==3.20.3", "future==1.0.0", "six==1.17.0", "scipy==1.10.1",
    "onnx==1.8.1", "hypothesis==4.53.2", "pytest==8.3.5",
)  # fmt: skip
_WORKS: Final = "from caffe2.python import workspace; assert len(workspace.RegisteredOperators()) > 900"
# Without it, Python 3.8 would import modules of the current folder; it has no -P.
_ISOLATED: Final = "-I"
_VENV: Final = "pyvenv.cfg"  # of a virtual environment
_IS_38: Final = "import ensurepip, sys; sys.exit(sys.version_info[:2] != (3, 8))"


def install_oracle(folder: Path | None = None, python: str | None = None) -> Path:
    """Install real Caffe2, about 0.8 GB, and give the Python that has it; one that works already stays as it is.

    Args:
        folder: where to; None takes ``CAFFE2_ORACLE_DIR``, else ``~/.cache/caffe2-oracle``.
        python: a CPython 3.8; None takes ``PYTHON38``, else one on PATH or one that pyenv has.

    Raises RunError if CPython 3.8 is not installed, the folder has other files, or the installation fails.
    """
    target = cache_folder() if folder is None else folder
    oracle = target / "bin" / "python"
    works = [str(oracle), _ISOLATED, "-c", _WORKS]
    if _succeeds(works):
        return oracle
    if target.exists() and not ((target / _VENV).is_file() or (target.is_dir() and not any(target.iterdir()))):
        raise RunError(f"{target} has other files, which an installation would remove: name another folder")
    base = next((found for found in _pythons(python) if _succeeds([found, _ISOLATED, "-c", _IS_38])), None)
    if base is None:
        found = "no CPython 3.8 found" if python is None else f"{python} is no CPython 3.8"
        raise RunError(f"{found}, the last that real Caffe2 was built for: install one, or name it with --python")
    _run([base, _ISOLATED, "-m", "venv", "--clear", str(target)])
    _run([str(oracle), _ISOLATED, "-m", "pip", "install", "--quiet", *PACKAGES])
    _run(works)
    return oracle


def _pythons(named: str | None) -> Iterator[str]:
    if named is not None:
        yield named
        return
    if os.environ.get("PYTHON38"):
        yield os.environ["PYTHON38"]
    found = shutil.which("python3.8")
    if found:
        yield found
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(str(path) for path in root.glob("versions/3.8*/bin/python"))


def _succeeds(command: Sequence[str]) -> bool:
    import subprocess

    try:
        done = subprocess.run(command, capture_output=True, check=False)  # noqa: S603 - Pythons that the user has
    except OSError:
        return False
    return done.returncode == 0


def _run(command: Sequence[str]) -> None:
    import subprocess

    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - the same
    if done.returncode:
        tail = "\n".join((done.stderr or done.stdout).splitlines()[-10:])
        raise RunError(f"{' '.join(command[:4])} ... ended with status {done.returncode}:\n{tail}")

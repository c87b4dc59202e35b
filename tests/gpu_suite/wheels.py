"""The wheels that a machine with a GPU needs: which, downloaded, made smaller, and installed beside what it has."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path
from typing import Final, NamedTuple

from gpu_suite import parts, repack

ROOT: Final = Path(__file__).resolve().parents[2]
RUNTIME: Final = "onnxruntime-gpu"
# What the tests need besides the project's own requirements.
_TOOLS: Final = ("pytest>=8.3", "hypothesis>=6.100")
_REQUIREMENT: Final = re.compile(r"([A-Za-z0-9_.-]+?)(?:>=([0-9.]+))?$")
# Tags from new to old: a machine with a newer C library takes wheels for older ones.
_PLATFORMS: Final = [f"manylinux_2_{n}_x86_64" for n in (28, 27, 24, 17, 12, 5)] + ["manylinux2014_x86_64"]
_PART_SIZE: Final = 60_000_000


class Requirement(NamedTuple):
    """A package, and the lowest version that will do, or none."""

    name: str
    lowest: str

    def __str__(self) -> str:
        return f"{self.name}>={self.lowest}" if self.lowest else self.name


class WheelError(Exception):
    """The environment cannot be made; the message is one sentence for the user."""


def requirements() -> list[Requirement]:
    """Return what the project and its tests need, by pyproject.toml; onnxruntime-gpu comes first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = [*project["optional-dependencies"]["gpu"], *project["dependencies"], *_TOOLS]
    return [Requirement(match[1], match[2] or "") for name in names if (match := _REQUIREMENT.match(name))]


def unmet(needed: Sequence[Requirement]) -> list[Requirement]:
    """Return the requirements that this Python does not meet."""
    return [one for one in needed if not _is_met(one)]


def prepare(folder: Path, python: str, part_size: int = _PART_SIZE) -> list[Path]:
    """Download the wheels for a Python version on x86-64 Linux, and cut them into parts.

    Raises WheelError if the folder is not empty, or pip fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise WheelError(f"{folder} is not empty")
    wheels = download(folder, python)
    for wheel in wheels:
        repack.without(wheel, lambda name: "providers_tensorrt" in name)
    return parts.cut(wheels, folder, part_size)


def download(folder: Path, python: str = "") -> list[Path]:
    """Download the wheels of all requirements and of what they need, for this Python or another version of it.

    Returns them, onnxruntime-gpu first. Raises WheelError if pip fails.
    """
    target = []
    if python:
        target = ["--python-version", python, "--implementation", "cp"]
        target += [word for name in _PLATFORMS for word in ("--platform", name)]
    wanted = [str(one) for one in requirements()]
    _pip(["download", "--only-binary=:all:", *target, "--dest", str(folder), *wanted])
    return sorted(folder.glob("*.whl"), key=lambda path: (_name(path) != RUNTIME, path.name))


def download_one(folder: Path, package: str = RUNTIME) -> Path:
    """Download a package alone, for this Python. Raises WheelError if pip fails."""
    wanted = next((str(one) for one in requirements() if one.name == package), package)
    _pip(["download", "--only-binary=:all:", "--no-deps", "--dest", str(folder), wanted])
    return next(path for path in folder.glob("*.whl") if _name(path) == package)


def wheel_files(folder: Path) -> list[Path]:
    """Return the wheels of a folder, joined first if in parts. Raises WheelError if there are none, or parts lack."""
    if not folder.is_dir():
        raise WheelError(f"{folder} is not a folder")
    joined = folder / "wheels"
    if not joined.is_dir():
        try:
            parts.join([folder], joined)
        except parts.PartsError as error:
            raise WheelError(str(error)) from None
    found = sorted({*folder.glob("*.whl"), *joined.glob("*.whl")})
    if not found:
        raise WheelError(f"{folder} holds no wheels: scripts/gpu --prepare makes them on a machine with network")
    return found


def install(wheels: Sequence[Path], target: Path) -> list[str]:
    """Install what this Python lacks into a folder of its own, so that the Python itself stays unchanged.

    Packages that it has stay in use, but for those that are too old, and for onnxruntime: that of the folder hides it,
    as the folder comes first on the path.

    Returns the names. Raises WheelError if a requirement is neither installed nor among the wheels.
    """
    lacking = unmet(requirements())
    names = {one.name for one in lacking}
    by_name = {_name(path): path for path in wheels}
    without = [str(one) for one in lacking if _normal(one.name) not in by_name]
    if without:
        raise WheelError(f"{', '.join(without)} is neither installed nor in the folder of wheels")
    installed = {_normal(found.name) for found in distributions() if found.name}
    chosen = [path for name, path in by_name.items() if name in {_normal(n) for n in names} or name not in installed]
    if chosen:
        _pip(["install", "--no-index", "--no-deps", "--no-compile", "--upgrade", "--target", str(target),
              *map(str, chosen)])  # fmt: skip
    return [_name(path) for path in chosen]


def _is_met(one: Requirement) -> bool:
    try:
        found = version(one.name)
    except PackageNotFoundError:
        return False
    return not one.lowest or _numbers(found) >= _numbers(one.lowest)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(_leading_numbers(text))


def _leading_numbers(text: str) -> Iterator[int]:
    for word in text.split("."):
        match = re.match(r"\d+", word)
        if match is None:
            return
        yield int(match[0])


def _name(wheel: Path) -> str:
    return _normal(wheel.name.partition("-")[0])


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _pip(words: Sequence[str]) -> None:
    command = [sys.executable, "-P", "-m", "pip", "--disable-pip-version-check", "--quiet", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - this Python's own pip
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise WheelError(f"pip {words[0]} failed: {lines[-1] if lines else done.returncode}")

"""Workarounds for faults of dependencies, by the version that needs them: ``scripts/workarounds``.

A comment or a docstring marks one: ``onnxruntime 1.32: what is wrong``, or ``As of onnx 1.23, what is wrong``. The
version is the newest in which the fault was seen.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, NamedTuple

from packaging.requirements import Requirement
from packaging.version import Version
from support.paths import PACKAGES, ROOT

_PACKAGES: Final = "onnxruntime|onnx|onnxscript|onnx-ir|numpy|protobuf"
_MARK: Final = re.compile(rf"(As of )?\b({_PACKAGES}) (\d+(?:\.\d+)+)(?(1)[,:]|:)(.*)")


class Workaround(NamedTuple):
    """A place with a workaround."""

    package: str
    version: Version
    place: str
    what: str


def find_workarounds(path: Path) -> Iterator[Workaround]:
    """Yield what a file of source marks."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if (match := _MARK.search(line)) is not None:
            yield Workaround(match[2], Version(match[3]), f"{path.relative_to(ROOT)}:{number}", match[4].strip())


def all_workarounds() -> list[Workaround]:
    """Return those of all packages, the oldest of each dependency first."""
    files = sorted(path for folder in PACKAGES.values() for path in folder.rglob("*.py"))
    return sorted(each for path in files for each in find_workarounds(path))


def lowest_versions() -> dict[str, Version]:
    """Return the lowest version of each dependency that the project takes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = [*project["dependencies"], *project["optional-dependencies"]["cpu"]]
    found = map(Requirement, texts)
    return {each.name: min(Version(part.version) for part in each.specifier) for each in found}


def advice(work: Workaround, lowest: Version | None, installed: Version | None) -> str:
    """Return what is to be done: nothing while the installed version is not newer than the one that needs it."""
    if lowest is not None and work.version.release[:2] < lowest.release[:2]:
        return "may go: older than every version that the project takes, or seen since and not written down"
    if installed is not None and work.version.release[:2] < installed.release[:2]:
        return f"try without: {installed} is installed"
    return "stays"


def main() -> int:
    """Print every workaround with what is to be done."""
    lowest = lowest_versions()
    for work in all_workarounds():
        try:
            installed = Version(version(work.package))
        except PackageNotFoundError:
            installed = None
        what = advice(work, lowest.get(work.package), installed)
        print(f"{work.package} {work.version}  {work.place}  {what}\n    {work.what}")  # noqa: T201 - the output
    return 0


if __name__ == "__main__":
    sys.exit(main())

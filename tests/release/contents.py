"""What an sdist and a wheel contain, compared with the files that git tracks."""

from __future__ import annotations

import subprocess
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from support.paths import PACKAGES as _FOLDERS
from support.paths import ROOT

MAXIMUM_BYTES: Final = 2 << 20
PACKAGES: Final = tuple(str(folder.relative_to(ROOT)) for folder in _FOLDERS.values())
# Beside the packages, in an sdist.
_PAGES: Final = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "LICENSE",
    "pyproject.toml",
    "hatch_build.py",
)
_OF_TOOLS: Final = {".gitignore", "PKG-INFO"}  # what hatchling adds to an sdist
_OF_WHEELS: Final = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}  # in the .dist-info


def tracked_files(*folders: str) -> set[str]:
    """Return the files that git tracks below folders of this repository, and new ones that it does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *folders]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S603 - git
    return {name for name in done.stdout.splitlines() if (ROOT / name).exists()}


def wheel_sizes(wheel: Path) -> dict[str, int]:
    """Return the files of a wheel and their sizes in bytes."""
    with zipfile.ZipFile(wheel) as archive:
        return {info.filename: info.file_size for info in archive.infolist()}


def sdist_sizes(sdist: Path) -> dict[str, int]:
    """Return the files of an sdist, relative to its folder, and their sizes in bytes."""
    with tarfile.open(sdist) as archive:
        return {member.name.partition("/")[2]: member.size for member in archive.getmembers() if member.isfile()}


def wheel_faults(sizes: Mapping[str, int]) -> list[str]:
    """Return what a wheel lacks, or has and should not, a line each."""
    wanted = {name.partition("/")[2] for name in tracked_files(*PACKAGES)}
    about = {name for name in sizes if name.partition("/")[0].endswith(".dist-info")}
    faults = _differences({name.partition("/")[2] for name in about}, _OF_WHEELS)
    return faults + _differences(sizes.keys() - about, wanted) + _faults_of_sizes(sizes)


def sdist_faults(sizes: Mapping[str, int]) -> list[str]:
    """Return what an sdist lacks, or has and should not, a line each."""
    return _differences(sizes.keys() - _OF_TOOLS, tracked_files(*PACKAGES, "docs", *_PAGES)) + _faults_of_sizes(sizes)


def _differences(found: set[str], wanted: set[str]) -> list[str]:
    missing = [f"missing: {name}" for name in sorted(wanted - found)]
    return missing + [f"unexpected: {name}" for name in sorted(found - wanted)]


def _faults_of_sizes(sizes: Mapping[str, int]) -> list[str]:
    return [f"larger than {MAXIMUM_BYTES} bytes: {name}" for name, size in sizes.items() if size > MAXIMUM_BYTES]

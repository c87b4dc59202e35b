"""Building the sdist and the wheel, twice."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from support.paths import ROOT

from release.contents import tracked_files


class Distributions(NamedTuple):
    """The files of a release."""

    sdist: Path
    wheel: Path


def build(folder: Path, source: Path = ROOT, *, umask: int = -1, zone: str | None = None) -> Distributions:
    """Build the sdist and, from it, the wheel, with a umask and a time zone if they are given.

    Without hatchling in this Python it is installed into an environment for the build. Raises CalledProcessError.
    """
    isolated = [] if importlib.util.find_spec("hatchling") else ["--installer=pip"]
    how = isolated or ["--no-isolation"]
    command = [sys.executable, "-P", "-m", "build", *how, "--outdir", str(folder), str(source)]
    environment = dict(os.environ) if zone is None else {**os.environ, "TZ": zone}
    subprocess.run(  # noqa: S603 - this Python
        command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, umask=umask, env=environment
    )
    (sdist,) = folder.glob("*.tar.gz")
    (wheel,) = folder.glob("*.whl")
    return Distributions(sdist, wheel)


def build_differences(built: Distributions) -> list[str]:
    """Build again from a copy of the files, with other times, umask and time zone; return what differs, a line each."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "copy")
        for name in tracked_files("."):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
        again = build(Path(folder, "dist"), copy, umask=0o077, zone="Asia/Kathmandu")
        return compare(built, again)


def compare(first: Distributions, second: Distributions) -> list[str]:
    """Return how two builds differ, a line each: a name, or the digest of what it holds."""
    pairs = zip(first, second, strict=True)
    return [
        f"{a.name} is {_digest(a)}, and {b.name} of a second build {_digest(b)}" for a, b in pairs if not _same(a, b)
    ]


def _same(first: Path, second: Path) -> bool:
    return first.name == second.name and _digest(first) == _digest(second)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()

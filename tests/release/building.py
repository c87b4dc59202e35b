"""Building the sdist and the wheel."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from support.paths import ROOT


class Distributions(NamedTuple):
    """The files of a release."""

    sdist: Path
    wheel: Path


def build(folder: Path) -> Distributions:
    """Build the sdist and, from it, the wheel.

    Without hatchling in this Python it is installed into an environment for the build. Raises CalledProcessError.
    """
    isolated = [] if importlib.util.find_spec("hatchling") else ["--installer=pip"]
    how = isolated or ["--no-isolation"]
    command = [sys.executable, "-P", "-m", "build", *how, "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # noqa: S603 - this Python
    (sdist,) = folder.glob("*.tar.gz")
    (wheel,) = folder.glob("*.whl")
    return Distributions(sdist, wheel)

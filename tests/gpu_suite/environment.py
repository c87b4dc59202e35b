"""The environment of the stages: this Python and its packages, with onnxruntime-gpu and what else lacks before them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gpu_suite import wheels
from gpu_suite.wheels import ROOT, WheelError

STAND_IN: Final = Path(__file__).resolve().parent / "stand_in"
# The tests that must run are those that this machine can: the report shows which were skipped, and why.
_REQUIRED: Final = "CAFFE2_BRIDGE_REQUIRE"
_SOURCES: Final = ("bridge", "frontend", "backend", "tests")


def make_environment(folder: Path, wheel_folder: Path | None, *, stand_in: bool) -> dict[str, str]:
    """Install what lacks in a folder, and make the environment variables of the stages.

    Args:
        folder: for packages; it comes before all other folders of packages, so that an onnxruntime that this Python has
            is hidden by that of the folder. Both in one folder would overwrite each other's files.
        wheel_folder: where the wheels are; None takes them from the package index if anything lacks.
        stand_in: whether the CPU runs under the name of CUDA: needs onnxruntime for the CPU.

    Raises WheelError if the environment cannot be made.
    """
    sources = [str(ROOT / name) for name in _SOURCES]
    if stand_in:
        _require([one for one in wheels.requirements() if one.name != wheels.RUNTIME])
        return _variables([str(STAND_IN), *sources])
    if wheels.unmet(wheels.requirements()):
        found = wheels.wheel_files(wheel_folder) if wheel_folder else wheels.download(folder / "wheels")
        wheels.install(found, folder / "site")
    return _variables([str(folder / "site"), *sources])


def _require(needed: list[wheels.Requirement]) -> None:
    lacking = wheels.unmet(needed)
    if lacking:
        raise WheelError(f"{', '.join(map(str, lacking))} is not installed in this Python")


def _variables(first: list[str]) -> dict[str, str]:
    inherited: Mapping[str, str] = {key: value for key, value in os.environ.items() if key != _REQUIRED}
    return {
        **inherited,
        "PYTHONPATH": os.pathsep.join(first),
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }

"""The environment of the stages: this Python and its packages, with onnxruntime-gpu and what else lacks before them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gpu_suite import wheels
from gpu_suite.expected import STAND_IN
from gpu_suite.stand_ins.setup import CPU, FOLDER, make_emulated_cuda, make_webgpu
from gpu_suite.wheels import ROOT, RUNTIME

# The tests that must run are those that this machine can: the report shows which were skipped, and why.
_REQUIRED: Final = "CAFFE2_BRIDGE_REQUIRE"
_SOURCES: Final = ("bridge", "frontend", "backend", "tests")


@dataclass(frozen=True)
class Environment:
    """Where stages run: environment variables, and the words before their commands."""

    variables: Mapping[str, str]
    prefix: Sequence[str] = field(default=())


def make_environment(folder: Path, wheel_folder: Path | None, *, stand_in: str = "") -> Environment:
    """Install what lacks in a folder, and make the environment of the stages.

    Args:
        folder: for packages; it comes before all other folders of packages, so that an onnxruntime that this Python has
            is hidden by that of the folder. Both in one folder would overwrite each other's files.
        wheel_folder: where the wheels are; None takes them from the package index if anything lacks.
        stand_in: what runs under the name of CUDA: ``cpu``, ``emulated-cuda``, ``webgpu``; empty for a GPU.

    Raises WheelError if the environment cannot be made.
    """
    if not stand_in:
        if wheels.unmet(wheels.requirements()):
            found = wheels.wheel_files(wheel_folder) if wheel_folder else wheels.download(folder / "wheels")
            wheels.install(found, folder / "site")
        return Environment(_variables([folder / "site"]))
    lacking = wheels.unmet([one for one in wheels.requirements() if one.name != RUNTIME])
    if lacking:
        raise wheels.WheelError(f"{', '.join(map(str, lacking))} is not installed in this Python")
    if stand_in == CPU:
        return Environment(_variables([FOLDER / "cpu"]))
    made = (make_emulated_cuda if stand_in == "emulated-cuda" else make_webgpu)(folder, wheel_folder)
    return Environment({**_variables(made.path), **made.variables, STAND_IN: stand_in}, made.prefix)


def _variables(first: Sequence[Path]) -> dict[str, str]:
    inherited: Mapping[str, str] = {key: value for key, value in os.environ.items() if key != _REQUIRED}
    return {
        **inherited,
        "PYTHONPATH": os.pathsep.join([*map(str, first), *(str(ROOT / name) for name in _SOURCES)]),
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }

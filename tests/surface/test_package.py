"""The wheel, built and used from outside the repository; ``scripts/package --install`` uses clean environments."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from release.building import build
from release.contents import sdist_faults, sdist_sizes, wheel_faults, wheel_sizes
from release.environments import use

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not importlib.util.find_spec("build"), reason="the package build is not installed"),
]


def test_the_distributions_contain_the_packages_and_work(tmp_path: Path) -> None:
    built = build(tmp_path / "dist")
    assert sdist_faults(sdist_sizes(built.sdist)) == []
    assert wheel_faults(wheel_sizes(built.wheel)) == []
    folder = tmp_path / "installed"
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(folder),
        str(built.wheel),
    ]
    subprocess.run(command, check=True)  # noqa: S603 - this Python's pip
    use(Path(sys.executable), folder, paths=[folder])

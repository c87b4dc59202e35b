"""The tests mirror the packages: every folder of tests/unit is a room, and helpers live in tests/support alone."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from support.paths import PACKAGES, ROOT

UNIT: Final = ROOT / "tests" / "unit"


def folders(root: Path) -> set[Path]:
    """Return the folders below one that hold Python files of their own, relative to it."""
    return {file.parent.relative_to(root) for file in root.rglob("*.py")}


def test_every_folder_of_unit_tests_is_a_room() -> None:
    rooms = {Path(name) / room for name, package in PACKAGES.items() for room in folders(package)}
    rooms |= {
        Path("conformance"),
        Path("caffe2_tests"),
        Path("gpu_suite"),
        Path("release"),
        Path("documentation"),
    }  # the tools of these names in tests
    assert folders(UNIT) - rooms == set()


def test_unit_tests_hold_tests_alone() -> None:
    tests = [file for folder in ("unit", "property", "surface") for file in (UNIT.parent / folder).rglob("*.py")]
    assert [str(file) for file in tests if not file.name.startswith("test_")] == []

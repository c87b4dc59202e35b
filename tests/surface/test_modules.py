"""Every module has a test file of its name, or is named by the tests of its room; those that are not are listed.

The list, ``without_tests.txt``, may only shrink. Families of operators are tested by recorded cases: those of
``caffe2_frontend`` in ``tests/golden/test_conformance.py``, those of ``caffe2_torch`` in ``tests/pytorch``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from support.modules import modules
from support.paths import PACKAGES, ROOT

from caffe2_frontend.ops.index import INDEX

TESTS: Final = ROOT / "tests"
LIST: Final = Path(__file__).with_name("without_tests.txt")
# Folders of tests that are of no room: of a package as a whole.
WHOLE: Final = {"pytorch": TESTS / "pytorch"}


@cache
def named_in(folder: Path) -> set[str]:
    """Return the words of the tests of a folder, those in folders below it left out."""
    return {word for path in folder.glob("test_*.py") for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))}


def is_named(module: str, folders: Mapping[str, Path]) -> bool:
    """Whether tests of a module's room, or of a room around it, have its name, in their own or inside."""
    package, *rooms, name = module.split(".")
    folder = folders[package]
    around = [folder.joinpath(*rooms[:depth]) for depth in range(len(rooms) + 1)]
    return (around[-1] / f"test_{name}.py").is_file() or any(name in named_in(each) for each in around)


def untested() -> list[str]:
    """Return the modules that no test names, but families of operators and what is generated."""
    folders = {base.name: WHOLE.get(name, TESTS / "unit" / name) for name, base in PACKAGES.items()}
    found = {name for name, path in modules().items() if path.stem not in {"__init__", "__main__"}}
    families = {f"caffe2_frontend.{entry.module}" for entry in INDEX.values()}
    families |= {name for name in found if name.startswith("caffe2_torch.ops.")}
    return sorted(name for name in found - families if not name.endswith("_pb2") and not is_named(name, folders))


def test_modules_without_tests_are_listed() -> None:
    listed, found = LIST.read_text(encoding="ascii").split(), untested()
    assert sorted(set(found) - set(listed)) == [], "write tests/unit/<room>/test_<module>.py"
    assert sorted(set(listed) - set(found)) == [], f"tested, or gone: delete their lines in {LIST.name}"


@pytest.mark.parametrize(
    ("module", "named"),
    [
        ("p.room.own", True),
        ("p.room.told", True),
        ("p.room.inner.told", True),
        ("p.room.other", False),
        ("p.own", False),
    ],
)
def test_a_module_is_named_by_its_room(tmp_path: Path, module: str, *, named: bool) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "test_own.py").write_text('"""What told says."""')
    assert is_named(module, {"p": tmp_path}) == named

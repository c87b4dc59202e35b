"""Code that only this user can have written is taken from the cache, and no other."""

from __future__ import annotations

import marshal
import os
from pathlib import Path
from types import CodeType

import pytest

from caffe2_compat.hook import compiled
from caffe2_compat.hook.compiled import cached_code

SOURCE = "value = 1\n"


class Compiler:
    """Counts how often a source is compiled."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, source: str, path: str) -> CodeType:
        self.count += 1
        return compile(source, path, "exec")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CAFFE2_BRIDGE_CACHE", str(tmp_path))
    return tmp_path / "compiled"


def value(code: CodeType) -> int:
    names: dict[str, int] = {}
    exec(code, names)  # noqa: S102 - compiled here
    return names["value"]


def test_code_is_kept(folder: Path) -> None:
    compiler = Compiler()
    assert [value(cached_code(SOURCE, "a.py", compiler)) for _ in range(3)] == [1, 1, 1]
    assert compiler.count == 1
    assert folder.stat().st_mode & 0o777 == 0o700
    (file,) = folder.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


def test_other_sources_paths_and_rewrites_are_compiled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Compiler()
    cached_code(SOURCE, "a.py", compiler)
    assert value(cached_code("value = 2\n", "a.py", compiler)) == 2
    assert cached_code("value = 2\n", "b.py", compiler).co_filename == "b.py"
    assert len(list(folder.iterdir())) == 2
    monkeypatch.setattr(compiled, "_rewrites", lambda: b"others")
    cached_code("value = 2\n", "b.py", compiler)
    assert compiler.count == 4


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_files_that_others_can_write_are_not_read(folder: Path, mode: int) -> None:
    compiler = Compiler()
    cached_code(SOURCE, "a.py", compiler)
    (file,) = folder.iterdir()
    planted = file.read_bytes()[:32] + marshal.dumps(compile("value = 3\n", "a.py", "exec"))
    file.write_bytes(planted)
    assert value(cached_code(SOURCE, "a.py", compiler)) == 3  # the user's own file
    file.chmod(mode)
    assert value(cached_code(SOURCE, "a.py", compiler)) == 1
    assert compiler.count == 2


def test_links_and_pipes_are_not_read(folder: Path, tmp_path: Path) -> None:
    compiler = Compiler()
    cached_code(SOURCE, "a.py", compiler)
    (file,) = folder.iterdir()
    file.rename(tmp_path / "moved")
    file.symlink_to(tmp_path / "moved")
    cached_code(SOURCE, "a.py", compiler)
    file.unlink()
    os.mkfifo(file)
    cached_code(SOURCE, "a.py", compiler)
    assert compiler.count == 3


def test_files_that_are_cut_off(folder: Path) -> None:
    compiler = Compiler()
    cached_code(SOURCE, "a.py", compiler)
    (file,) = folder.iterdir()
    for size in (0, 10, 32, 40):
        file.write_bytes(file.read_bytes()[:size])
        assert value(cached_code(SOURCE, "a.py", compiler)) == 1
    assert compiler.count == 5


def test_files_of_others_are_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Compiler()
    cached_code(SOURCE, "a.py", compiler)
    assert folder.exists()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    cached_code(SOURCE, "a.py", compiler)
    assert compiler.count == 2


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_folders_that_others_can_write_are_not_used(folder: Path, mode: int) -> None:
    folder.mkdir()
    folder.chmod(mode)
    compiler = Compiler()
    assert [value(cached_code(SOURCE, "a.py", compiler)) for _ in range(2)] == [1, 1]
    assert compiler.count == 2
    assert not list(folder.iterdir())


def test_folders_that_cannot_be_made(folder: Path) -> None:
    folder.write_text("")
    assert value(cached_code(SOURCE, "a.py", Compiler())) == 1

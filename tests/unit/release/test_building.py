"""Two builds of the distributions, compared."""

from __future__ import annotations

from pathlib import Path

from release.building import Distributions, compare


def built(folder: Path, *, wheel: bytes, name: str = "a.whl") -> Distributions:
    folder.mkdir()
    (folder / "a.tar.gz").write_bytes(b"the same")
    (folder / name).write_bytes(wheel)
    return Distributions(folder / "a.tar.gz", folder / name)


def test_builds_must_be_the_same_byte_by_byte(tmp_path: Path) -> None:
    first = built(tmp_path / "first", wheel=b"one")
    assert compare(first, built(tmp_path / "again", wheel=b"one")) == []
    (fault,) = compare(first, built(tmp_path / "bytes", wheel=b"two"))
    assert fault.startswith("a.whl is 7692c3ad")
    assert len(compare(first, built(tmp_path / "name", wheel=b"one", name="b.whl"))) == 1

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from caffe2_bridge.diagnostics import RunError
from caffe2_compat.hook.locate import VARIABLE, locate


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of an environment with Caffe2's core."""
    site = tmp_path / "env" / "lib" / "python3.8" / "site-packages"
    (site / "caffe2" / "python").mkdir(parents=True)
    (site / "caffe2" / "python" / "core.py").write_text("x = 1\n")
    (site / "torch").mkdir()
    return site


@pytest.mark.parametrize("inner", ["", "caffe2", "caffe2/python", "torch"])
def test_a_folder_in_several_ways(site: Path, inner: str) -> None:
    sources = locate(site / inner)
    assert sources.root == site
    assert sources.read("caffe2/python/core.py") == b"x = 1\n"
    assert sources.read("caffe2/python") is None
    assert sources.read("caffe2/python/none.py") is None
    assert sources.is_folder("caffe2/python")


def test_an_environment(site: Path) -> None:
    assert locate(site.parents[2]).root == site


def test_a_wheel(tmp_path: Path) -> None:
    path = tmp_path / "torch.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("caffe2/python/core.py", "x = 1\n")
    sources = locate(path)
    assert (sources.root, sources.read("caffe2/python/core.py")) == (path, b"x = 1\n")
    assert sources.is_folder("caffe2/python")
    assert not sources.is_folder("caffe2/proto")
    assert sources.read("caffe2/python/none.py") is None


def test_the_variable_and_the_search_path(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(site))
    assert locate().root == site
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setattr("sys.path", [str(tmp_path), str(site)])
    assert locate().root == site


def test_no_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    with pytest.raises(RunError, match=r"are not found; .*torch 1\.0 to 1\.12.*--caffe2"):
        locate()
    with pytest.raises(RunError, match=r"does not contain Caffe2's Python files \(caffe2/python/core\.py\)"):
        locate(tmp_path)
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as archive:
        archive.writestr("b.py", "")
    with pytest.raises(RunError, match="does not contain"):
        locate(tmp_path / "a.whl")

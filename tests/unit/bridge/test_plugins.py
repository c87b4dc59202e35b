"""Plugins: modules by name and files, imported and named for other processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.plugins import absolute_plugin, import_plugin, plugin_source


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "sets_a_variable.py").write_text(
        "import os; os.environ['IMPORTED'] = os.environ.get('IMPORTED', '') + 'x'"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IMPORTED", "")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["sets_a_variable.py", "./sets_a_variable.py", "sets_a_variable"])
def test_names_and_files(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import_plugin(name)
    assert os.environ["IMPORTED"] == "x"
    assert plugin_source(name) == (folder / "sets_a_variable.py").read_bytes()
    monkeypatch.chdir("/")
    assert plugin_source(absolute_plugin(str(folder / name) if name.endswith(".py") else name))


def test_a_file_is_named_by_its_absolute_path(folder: Path) -> None:
    assert absolute_plugin("sets_a_variable.py") == str(folder.resolve() / "sets_a_variable.py")
    assert absolute_plugin("package.module") == "package.module"


@pytest.mark.parametrize("name", ["absent.py", "absent_module", "absent_package.module"])
@pytest.mark.parametrize("function", [import_plugin, plugin_source])
def test_one_that_is_absent_is_an_error(name: str, function: object) -> None:
    with pytest.raises(OptionError, match=f"^{name}: (FileNotFoundError|ModuleNotFoundError): "):
        function(name)  # type: ignore[operator] # one of both


def test_code_that_fails_is_an_error() -> None:
    Path("faulty.py").write_text("1 / 0")
    with pytest.raises(OptionError, match=r"^faulty.py: ZeroDivisionError: division by zero"):
        import_plugin("faulty.py")


def test_a_built_in_module_has_no_file() -> None:
    with pytest.raises(OptionError, match=r"^sys: "):
        plugin_source("sys")

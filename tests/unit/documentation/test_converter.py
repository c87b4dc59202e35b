"""The page that converts in the browser, as it is written: its locations, its policy, what it installs."""

from __future__ import annotations

import base64
import hashlib
import json
import tomllib
from pathlib import Path

import pytest
from documentation.__main__ import main
from documentation.converter import SOURCE, policy, settings, write_converter
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from support.converter_page import node_package
from support.paths import ROOT

# What only the command line, or nothing that the page calls, imports: tests/support/webassembly.py runs without it.
UNNEEDED = {"click", "rich"}


def test_what_is_installed_is_what_the_project_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {canonicalize_name(each.name): each for each in map(Requirement, project["dependencies"])}
    pinned = {canonicalize_name(each.name): each for each in map(Requirement, settings()["requirements"])}
    distribution = set(settings()["distribution"])
    assert needed.keys() - pinned.keys() - distribution == UNNEEDED
    for name in needed.keys() & pinned.keys():
        (pin,) = pinned[name].specifier
        assert pin.operator == "=="
        assert needed[name].specifier.contains(pin.version)


@pytest.mark.parametrize(("location", "package", "folder"), [
    ("pyodide", "pyodide", ""), ("onnxruntime", "onnxruntime-web", "dist"),
])  # fmt: skip
def test_digests_are_those_of_the_packages(location: str, package: str, folder: str) -> None:
    found = node_package(package, folder)
    root = node_package(package)
    if found is None or root is None:
        pytest.skip(f"{package} is not on NODE_PATH")
    version = json.loads((root / "package.json").read_text(encoding="utf-8"))["version"]
    if f"@{version}/" not in settings()["locations"][location]:
        pytest.skip(f"{package} on NODE_PATH is {version}")
    for name, digest in settings()["integrity"][location].items():
        assert digest == f"sha256-{base64.b64encode(hashlib.sha256((found / name).read_bytes()).digest()).decode()}"


def test_versions_are_pinned() -> None:
    locations = settings()["locations"]
    assert all("@" in locations[name] or "/v3" in locations[name] for name in ("pyodide", "packages", "onnxruntime"))


def test_the_policy_lets_the_page_connect_to_its_locations_alone() -> None:
    rules = dict(rule.split(" ", 1) for rule in policy(settings()["locations"]).split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == "'self' blob: 'wasm-unsafe-eval'"
    assert rules["connect-src"].split()[2:] == [
        f"{address.rstrip('/')}/" for address in settings()["locations"].values() if "://" in address
    ]
    own = dict.fromkeys(settings()["locations"], "own/")
    assert "connect-src 'self' blob:;" in policy(own)


def test_the_folder_has_the_wheel_and_the_locations_that_are_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "try"
    assert main(["--converter", str(folder), "--location", "pyodide=https://host.example/py/"]) == 0
    assert capsys.readouterr().out == f"{folder / 'index.html'}\n"
    written = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    assert written["locations"] == {**settings()["locations"], "pyodide": "https://host.example/py/"}
    assert (folder / written["wheel"]).stat().st_size > 1_000_000
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert "{{" not in page
    assert "connect-src 'self' blob: https://host.example/py/ " in page
    assert {path.name for path in SOURCE.iterdir()} == {path.name for path in folder.iterdir()} - {written["wheel"]}


def test_other_files_of_the_folder_stay(tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_text("own", encoding="utf-8")
    (tmp_path / "caffe2_bridge-0.1-py3-none-any.whl").touch()
    write_converter(tmp_path)
    others = {path.name for path in tmp_path.iterdir()} - {path.name for path in SOURCE.iterdir()}
    written = json.loads((tmp_path / "settings.json").read_text(encoding="utf-8"))
    assert others == {"own.txt", written["wheel"]}


def test_a_location_that_does_not_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyError, match="cdn is not a location"):
        write_converter(tmp_path / "try", {"cdn": "x"})
    with pytest.raises(SystemExit):
        main(["--converter", str(tmp_path / "try"), "--location", "cdn=x"])
    assert "'cdn=x': expected NAME=URL, of pyodide, packages" in capsys.readouterr().err

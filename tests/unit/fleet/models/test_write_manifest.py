"""Manifests that are written: each form reads back the same, and what was edited stays."""

from __future__ import annotations

import importlib.util
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.paths import MODELS

from caffe2_bridge.diagnostics import NetFormatError, OptionError
from caffe2_cli.commands import main
from caffe2_fleet import ModelTask, discover_manifest, read_manifest, write_manifest
from caffe2_fleet.models.write_manifest import toml_text

needs_arrow = pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="PyArrow is not installed")


def tasks(folder: Path) -> list[ModelTask]:
    return [
        ModelTask("plain.pb", str(folder / "zoo/plain.pb")),
        ModelTask(
            'all "keys"', str(folder / "zoo/ü \x7f\t'.pb"), str(folder / "weights.pb"),
            {"data": ("float32", ["N", 3, None]), "q/x y": ("uint8", [2], (0.5, 128)), "any": (None, None)},
            ("softmax", "top 1"), 17, 1e-3, 0.0, "scan", "Team Ä",
        ),
    ]  # fmt: skip


@pytest.mark.parametrize("suffix", ["toml", "json", pytest.param("parquet", marks=needs_arrow)])
def test_what_is_written_reads_back(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"models.{suffix}"
    write_manifest(tasks(tmp_path), file)
    first, second = read_manifest(file)
    given = tasks(tmp_path)
    assert (first.name, Path(first.path)) == (
        "zoo/plain.pb" if first.name != "plain.pb" else "plain.pb",
        Path(given[0].path),
    )
    assert second == given[1]


def test_toml_is_valid_for_any_text() -> None:
    texts = ["", "\\", '"', "\x00\x1f\x7f", "😀", "a.b", "line\nbreak"]
    data = tomllib.loads(toml_text([{"path": text, "inputs": {text: text}} for text in texts]))
    assert [entry["path"] for entry in data["model"]] == texts
    assert [list(entry["inputs"].items()) for entry in data["model"]] == [[(text, text)] for text in texts]


def test_other_suffixes_and_names_that_are_no_text(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"must be a \.toml, \.json or \.parquet file"):
        write_manifest([], tmp_path / "models.yaml")
    with pytest.raises(OptionError, match="not valid text"):
        write_manifest([ModelTask("a", str(tmp_path / "\udcff.pb"))], tmp_path / "models.toml")
    assert list(tmp_path.iterdir()) == []


@needs_arrow
def test_a_file_that_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "models.parquet").write_bytes(b"no table")
    with pytest.raises(NetFormatError, match="manifest cannot be read"):
        read_manifest(tmp_path / "models.parquet")


def put_model(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name in ("predict_net.pb", "init_net.pb"):
        (folder / name).write_bytes((MODELS / "lstm" / name).read_bytes())


def test_discover_and_update(tmp_path: Path) -> None:
    put_model(tmp_path / "zoo" / "lstm")
    (tmp_path / "zoo" / "a_net.pb").write_bytes((MODELS / "lstm" / "predict_net.pb").read_bytes())
    (tmp_path / "zoo" / "a_init_net.pb").write_bytes((MODELS / "lstm" / "init_net.pb").read_bytes())
    manifest = tmp_path / "models.toml"
    found = discover_manifest(tmp_path / "zoo", manifest)
    listed = {task.name: task for task in read_manifest(manifest)}
    assert set(listed) == {"a_net.pb", "lstm"} == {task.name for task in found.added}
    assert listed["a_net.pb"].init.endswith("a_init_net.pb")
    with pytest.raises(OptionError, match="--update"):
        discover_manifest(tmp_path / "zoo", manifest)
    edited = manifest.read_text(encoding="utf-8").replace("[[model]]", "# checked\n[[model]]\nowner = 'me'", 1)
    manifest.write_text(edited, encoding="utf-8")
    put_model(tmp_path / "zoo" / "gru")
    (tmp_path / "zoo" / "a_net.pb").unlink()
    done = CliRunner().invoke(main, ["batch", "discover", str(tmp_path / "zoo"), "-o", str(manifest), "--update"])
    assert done.exit_code == 0, done.output
    assert "1 models added" in done.output
    assert "no longer there: a_net.pb" in done.output
    assert manifest.read_text(encoding="utf-8").startswith(edited.rstrip("\n"))
    assert {task.name: task.owner for task in read_manifest(manifest)} == {"a_net.pb": "me", "lstm": "", "gru": ""}

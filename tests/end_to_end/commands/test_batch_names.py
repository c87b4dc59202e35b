"""Names of models that files cannot have: they cost nothing, or the one model that has them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_fleet import ModelTask, run_batch
from caffe2_validation.options import ValidationOptions

OPTIONS = ValidationOptions(runtimes=("workspace", "onnxruntime-cpu"))
NAMES = ("good", "n" * 300, "z\0z", "c\x1b[31mx", "s\udcff", "turn\u202eed", "/".join("d" * 600), "ü" * 120)


@pytest.fixture
def net() -> bytes:
    op = OperatorDef(type="Relu", input=["x"], output=["y"])
    return NetDef(name="n", op=[op], external_input=["x"], external_output=["y"]).SerializeToString()


def test_odd_names_of_a_manifest_cost_one_model_at_most(net: bytes, tmp_path: Path) -> None:
    (tmp_path / "good.pb").write_bytes(net)
    entries = [{"path": "good.pb", "name": name} for name in NAMES]
    entries += [{"path": "p" * 300}, {"path": "go\0od.pb"}]
    (tmp_path / "models.json").write_text(json.dumps({"model": entries}))
    out = tmp_path / "out"
    found = run_batch(tmp_path / "models.json", out, OPTIONS)
    assert [result.verdict for result in found.results] == ["agree"] * len(NAMES) + ["could not run"] * 2
    assert "NUL character" in found.results[-1].reason
    for result in found.results:
        assert (out / result.page).is_file()
        assert all(char.isprintable() for char in result.page + result.onnx)
    assert len({result.onnx for result in found.results[:-2]}) == len(NAMES)
    pages = [*out.rglob("*.html")]
    assert len(pages) == len(NAMES) + 4  # an index and causes besides
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert all(char.isprintable() or char in "\n\t" for char in text), page
    assert [result.verdict for result in run_batch(tmp_path / "models.json", out, OPTIONS).results][:2] == ["agree"] * 2


@pytest.mark.skipif(os.name != "posix", reason="paths are text")
def test_paths_that_are_not_utf8(net: bytes, tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/models/\xff"
    os.makedirs(folder)  # noqa: PTH103 - a path of bytes
    Path(os.fsdecode(folder), "predict_net.pb").write_bytes(net)
    (result,) = run_batch(tmp_path / "models", tmp_path / "out", OPTIONS).results
    assert (result.model, result.verdict) == ("\udcff", "agree")
    assert (tmp_path / "out" / result.onnx).is_file()


def test_the_files_of_a_model_have_its_name_where_files_can() -> None:
    assert ModelTask("vision/resnet-50.v2", "p").stem == "vision/resnet-50.v2"
    stems = [ModelTask(name, "p").stem for name in ("z\0z", "z\x01z", "z-z")]
    assert len(set(stems)) == 3
    assert all(len(part.encode()) <= 200 for name in NAMES for part in ModelTask(name, "p").stem.split("/"))

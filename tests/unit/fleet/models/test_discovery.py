"""Models under a folder, and the reasons why other files are skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from caffe2_bridge.proto.caffe2_pb2 import Argument, NetDef, OperatorDef
from caffe2_fleet.models.discovery import discover, files_of

NET = NetDef(name="n", op=[OperatorDef(type="Relu", input=["x"], output=["y"])], external_input=["x"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a_predict_net.pb", "a_init_net.pb", "b.pb", "lonely_init_net.pb", "out/onnx/old.pb"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(NET.SerializeToString())
    (tmp_path / "b.pbtxt").write_text('op { type: "Relu" input: "x" output: "y" }', encoding="utf-8")
    (tmp_path / "notes.txt").write_text("see: the net\n", encoding="utf-8")
    (tmp_path / "labels.csv").write_text("1", encoding="utf-8")
    (tmp_path / "LICENSE").write_text("1", encoding="utf-8")
    (tmp_path / "broken.pb").write_bytes(b"\xff\xff")
    return tmp_path


def test_every_file_is_a_model_or_has_a_reason(folder: Path) -> None:
    found = discover(folder, folder / "out")
    assert [path.name for path in found.models] == ["a_predict_net.pb", "b.pb"]
    reasons = {file.path: file.reason for file in found.skipped}
    assert {file.path for file in found.skipped if file.is_part} == {"a_init_net.pb", "b.pbtxt"}
    assert reasons.pop("broken.pb").startswith("the file is neither a net")
    assert reasons.pop("notes.txt")
    assert reasons == {
        "LICENSE": "the name has no suffix",
        "a_init_net.pb": "the init net of a_predict_net.pb",
        "b.pbtxt": "the same net as b.pb, in text",
        "labels.csv": "the suffix '.csv' is not that of a model",
        "lonely_init_net.pb": "an init net without a predict net beside it",
    }


def test_results_of_an_earlier_batch_are_not_models(folder: Path) -> None:
    assert any(path.name == "old.pb" for path in discover(folder).models)
    assert not any(path.name == "old.pb" for path in discover(folder, folder / "out").models)


def test_an_init_net_of_any_name_is_not_a_model(tmp_path: Path) -> None:
    fc = OperatorDef(type="FC", input=["x", "w", "b"], output=["y"])
    fill = {"type": "GivenTensorFill", "arg": [Argument(name="shape", ints=[1]), Argument(name="values", floats=[1])]}
    init = NetDef(op=[OperatorDef(output=[name], **fill) for name in "wb"])
    for folder, net in (("one", "predict_net.pb"), ("two", "net.pb")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / net).write_bytes(NetDef(op=[fc], external_input=["x", "w", "b"]).SerializeToString())
        (tmp_path / folder / "exec_net.pb").write_bytes(init.SerializeToString())
    (tmp_path / "two" / "other.pb").write_bytes(NET.SerializeToString())
    found = discover(tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in found.models] == ["one", "two/net.pb", "two/other.pb"]
    assert {(file.path, file.reason) for file in found.skipped} == {
        ("one/exec_net.pb", "the init net of predict_net.pb"), ("two/exec_net.pb", "the init net of net.pb"),
    }  # fmt: skip
    assert files_of(tmp_path / "two" / "net.pb") == [tmp_path / "two" / "net.pb", tmp_path / "two" / "exec_net.pb"]

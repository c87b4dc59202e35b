"""Manifests: what is read from them, and what is refused by the name of the entry."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from caffe2_bridge.diagnostics import NetFormatError, OptionError
from caffe2_fleet.models.manifest import read_manifest
from caffe2_fleet.task import ModelTask
from caffe2_validation.options import ValidationOptions

MANIFEST = """
[defaults]
opset = 17
rtol = 1e-3

[[model]]
path = "zoo/resnet"
name = "vision/resnet50"
init = "weights/resnet.pb"
inputs = { data = "float32[N,3,224,?]", "scope/ids" = "int64" }
outputs = ["softmax"]

[[model]]
path = "../elsewhere/net.pb"
opset = 12
atol = 0
recurrent = "scan"
"""


def write(folder: Path, text: str, name: str = "models.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_entries_defaults_and_paths(tmp_path: Path) -> None:
    one, other = read_manifest(write(tmp_path, MANIFEST))
    assert one == ModelTask(
        "vision/resnet50", str(tmp_path / "zoo/resnet"), str(tmp_path / "weights/resnet.pb"),
        {"data": ("float32", ["N", 3, 224, None]), "scope/ids": ("int64", None)}, ("softmax",), 17, 1e-3,
    )  # fmt: skip
    assert other.name == "net.pb"
    assert (other.opset, other.rtol, other.atol, other.recurrent) == (12, 1e-3, 0, "scan")


def test_json_says_the_same(tmp_path: Path) -> None:
    text = json.dumps({"defaults": {"opset": 17}, "model": [{"path": "a.pb", "inputs": {"x": "[2]"}}]})
    (task,) = read_manifest(write(tmp_path, text, "models.json"))
    assert (task.name, task.opset, task.inputs) == ("a.pb", 17, {"x": (None, [2])})


def test_a_task_is_plain_data_and_its_options_win(tmp_path: Path) -> None:
    task = read_manifest(write(tmp_path, MANIFEST))[1]
    again = ModelTask.from_json(task.to_json())
    assert again == task
    options = again.options(ValidationOptions(rtol=0.5, atol=0.5, runtimes=("workspace",)))
    assert (options.rtol, options.atol, options.recurrent) == (1e-3, 0, "scan")
    assert options.runtimes == ("workspace",)
    assert options.tolerances["float32"].rtol == 1e-3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no models"),
        ("[[model]]\nname = 'x'", "model 1: key 'path' is missing"),
        ("[[model]]\npath = 'a'\nouputs = ['y']", "model 1: key 'ouputs' is unknown: the keys are atol, init"),
        ("[[models]]\npath = 'a'", "'models' is unknown"),
        ("[[model]]\npath = 'a'\n[[model]]\npath = 'x/../a'\nname = 'a'", "two models are named 'a'"),
        ("[[model]]\npath = 'a'\ninputs = {x = 'float32[2'}", "input 'x' is 'float32\\[2': expected DTYPE"),
        ("[[model]]\npath = 'a'\ninputs = {x = 'floaty[2]'}", "model 1: .*floaty"),
        ("[[model]]\npath = 'a'\noutputs = 'y'", "outputs must be a list of names"),
        ("[[model]]\npath = 'a'\nopset = 'x'", "model 1: "),
        ("[[model]]\npath = 'a'\nrtol = -1.0", "rtol must be"),
        ("[[model]]\npath = 'a'\nrecurrent = 'fast'", "recurrent must be one of"),
        ("[[model]]\npath = '..'", "cannot name results"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        read_manifest(write(tmp_path, text))


def test_a_file_that_is_neither_toml_nor_json(tmp_path: Path) -> None:
    with pytest.raises(NetFormatError, match="manifest cannot be read"):
        read_manifest(write(tmp_path, "[[model"))

"""The command that validates one model of a batch alone."""

from __future__ import annotations

import shlex

from caffe2_cli.subcommands.validate import validate
from caffe2_fleet.process.alone import command_of
from caffe2_fleet.task import ModelTask
from caffe2_validation.options import ValidationOptions


def test_the_command_has_what_the_batch_and_the_task_say() -> None:
    task = ModelTask(
        "m",
        "a folder/m",
        init="i.pb",
        inputs={"x": ("float32", (None, 3))},
        outputs=("y",),
        rtol=0.01,
        recurrent="scan",
    )
    options = ValidationOptions(runtimes=("workspace", "onnxruntime-cpu"), random_weights=True, device="cpu")
    words = shlex.split(command_of(task, options))
    assert words[:3] == ["caffe2-bridge", "validate", "a folder/m"]
    params = validate.make_context("validate", words[2:]).params
    chosen = {name: params[name] for name in ("runtimes", "outputs", "rtol", "recurrent", "random_weights", "device")}
    assert chosen == {
        "runtimes": ("workspace", "onnxruntime-cpu"), "outputs": ("y",), "rtol": 0.01, "recurrent": "scan",
        "random_weights": True, "device": "cpu",
    }  # fmt: skip
    assert list(params["inputs"]) == ["x"]


def test_plugins_are_named() -> None:
    assert command_of(ModelTask("m", "m"), ValidationOptions(), ["own.py"]).endswith(" m --plugin own.py")


def test_defaults_are_left_out() -> None:
    assert command_of(ModelTask("m", "m"), ValidationOptions()) == "caffe2-bridge validate m"

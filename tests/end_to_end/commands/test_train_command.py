"""``caffe2-bridge train``, from the files of a program to those of the trained model."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from support.commands import call
from support.training import PROGRAMS, classifier_data, linear_classifier, read_program

from caffe2_backend.training.checkpoint import read_checkpoint
from caffe2_bridge import load
from caffe2_bridge.builder import LSTMCell, Net
from caffe2_bridge.gradients import add_gradient_operators

MLP = PROGRAMS / "mlp_adam"
PROGRAM = (MLP / "train_net.pb", "--init", MLP / "init_net.pb", "--inputs", MLP / "feeds.npz")


@pytest.fixture
def linear(tmp_path: Path) -> tuple[object, ...]:
    train, init = linear_classifier()
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "predict_net.pb").write_bytes(train.SerializeToString())
    (tmp_path / "net" / "init_net.pb").write_bytes(init.SerializeToString())
    np.savez(tmp_path / "data.npz", **classifier_data(32))  # type: ignore[arg-type] # arrays by name
    return ("train", tmp_path / "net", "--inputs", tmp_path / "data.npz", "--batch-size", 8)


def test_a_program_and_the_model_that_it_becomes(tmp_path: Path) -> None:
    program = read_program("mlp_adam")
    result = call("train", *PROGRAM, "--steps", 20, "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "loss: 1.35557 to 1.38558 in 20 steps" in result.stdout
    assert result.stderr == ""
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"init_net.pb", "predict_net.pb", "model.onnx", "checkpoint.npz", "loss.html"}
    trained = load(tmp_path / "out")
    for name, value in program.final.items():
        np.testing.assert_allclose(trained.params[name], value, rtol=5e-3, atol=5e-4, err_msg=name)
    again = call("train", tmp_path / "out" / "model.onnx", "--inputs", MLP / "feeds.npz", "--steps", 2, "-o", tmp_path)
    assert again.exit_code == 0, again.output
    other = call("train", tmp_path / "out", "--inputs", MLP / "feeds.npz", "--steps", 2, "-o", tmp_path / "net")
    assert other.stdout.splitlines()[0] == again.stdout.splitlines()[0]


def test_recurrent_steps_that_are_computed_again(tmp_path: Path) -> None:
    """Check that the loss is the same, and that the trained net keeps the operators that compute blobs again."""
    net = Net("train")
    net.add_external_input("x")
    output, _ = LSTMCell(name="lstm", input_size=3, hidden_size=4).apply_over_sequence(net, "x")
    net.op("SumElements", [output], ["loss"])
    found = add_gradient_operators(net.proto, ["loss"])
    for name in [name for op in net.init_net.op for name in op.output]:
        if name in found.gradients:
            found.net.op.add(type="Add", input=[name, str(found.gradients[name])], output=[name])
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "predict_net.pb").write_bytes(found.net.SerializeToString())
    (tmp_path / "net" / "init_net.pb").write_bytes(net.init_net.SerializeToString())
    np.savez(tmp_path / "data.npz", **{"0/x": np.ones((5, 2, 3), np.float32)})  # type: ignore[arg-type] # arrays by name
    losses = []
    words = ("--inputs", tmp_path / "data.npz", "--steps", 1)
    for choice in ("none", "steps"):
        result = call("train", tmp_path / "net", *words, "-o", tmp_path / choice, "--recompute", choice)
        assert result.exit_code == 0, result.output
        losses.append(result.stdout.splitlines()[0])
        operators = load(tmp_path / choice).predict_net.op
        listed = [arg for op in operators for arg in op.arg if arg.name == "recompute_blobs_on_backward"]
        assert any(arg.strings for arg in listed) == (choice == "steps")
    assert losses[0] == losses[1]
    model = tmp_path / "none" / "model.onnx"
    refused = call("train", model, *words, "-o", tmp_path / "again", "--recompute", "steps")
    assert refused.exit_code == 2
    assert "give it to the export of the model" in refused.output


def test_resume(linear: tuple[object, ...], tmp_path: Path) -> None:
    call(*linear, "--steps", 9, "-o", tmp_path / "whole")
    call(*linear, "--steps", 4, "-o", tmp_path / "parts")
    result = call(*linear, "--steps", 9, "-o", tmp_path / "parts", "--resume", tmp_path / "parts")
    assert result.exit_code == 0, result.output
    assert read_checkpoint(tmp_path / "parts").losses == read_checkpoint(tmp_path / "whole").losses


def test_resume_with_all_steps_done(linear: tuple[object, ...], tmp_path: Path) -> None:
    """Resume a run that was killed between its last checkpoint and the nets."""
    out = tmp_path / "out"
    first = call(*linear, "--steps", 6, "--checkpoint-every", 3, "-o", out)
    files = {path.name: path.read_bytes() for path in out.iterdir()}
    for name in files.keys() - {"checkpoint.npz"}:
        (out / name).unlink()
    result = call(*linear, "--steps", 6, "--checkpoint-every", 3, "-o", out, "--resume", out)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0] == first.stdout.splitlines()[0]
    assert {path.name for path in out.iterdir()} == files.keys()
    for name in ("init_net.pb", "predict_net.pb", "model.onnx"):
        assert (out / name).read_bytes() == files[name], name
    fewer = call(*linear, "--steps", 5, "-o", out, "--resume", out)
    assert fewer.exit_code == 2
    assert "the checkpoint has 6 steps already: choose at least 6 with --steps" in fewer.output


def test_ctrl_c_leaves_a_checkpoint(linear: tuple[object, ...], tmp_path: Path) -> None:
    script = "import sys; from caffe2_cli.commands import main; sys.argv[0] = 'caffe2-bridge'; main()"
    words = [str(word) for word in (*linear, "--steps", 10**7, "--checkpoint-every", 5, "-o", tmp_path / "out")]
    process = subprocess.Popen(  # noqa: S603 - this Python, with a script of our own
        [sys.executable, "-c", script, *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while not (tmp_path / "out" / "checkpoint.npz").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, out + err
    steps = read_checkpoint(tmp_path / "out").steps
    assert steps >= 5
    assert f"interrupted after step {steps}" in err
    assert load(tmp_path / "out").params["iter"] == steps


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--steps", 5, "--batch-size", 33), 2, "batch size must be from 1 to the number of rows (32)"),
        (("--steps", 5, "--loss", "nowhere"), 2, "loss 'nowhere' is not a blob that the net writes"),
        (("--steps", 0), 2, "Invalid value for '--steps'"),
        (("--steps", 5, "--resume", "."), 2, "the folder has no checkpoint"),
        (("--steps", 5, "--inputs", MLP / "expected.npz"), 2, "do not exist: the model has the inputs 'label', 'data'"),
        (("--steps", 5, "--inputs", MLP / "program.json"), 2, "not an .npz file"),
    ],
)
def test_bad_input(
    linear: tuple[object, ...], tmp_path: Path, words: tuple[object, ...], code: int, message: str
) -> None:
    result = call(*linear, *words, "-o", tmp_path / "out")
    assert result.exit_code == code, result.output
    assert message in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_loss_that_is_not_finite(linear: tuple[object, ...], tmp_path: Path) -> None:
    data = classifier_data(32)
    data["data"][3] = np.nan
    np.savez(tmp_path / "data.npz", **data)  # type: ignore[arg-type] # arrays by name
    result = call(*linear, "--steps", 3, "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "warning: loss is nan at step 1" in result.stderr


def test_half_precision_leaves_training_out(linear: tuple[object, ...], tmp_path: Path) -> None:
    result = call("export", linear[1], "-o", tmp_path / "half.onnx", "--fp16")
    assert result.exit_code == 0, result.output
    assert "loss: largest difference" in result.stdout or "accuracy: largest difference" in result.stdout
    refused = call("export", linear[1], "-o", tmp_path / "half.onnx", "--fp16", "--training")
    assert refused.exit_code == 2
    assert "updates need float32" in refused.stderr


def test_external_data(linear: tuple[object, ...], tmp_path: Path) -> None:
    call("export", linear[1], "-o", tmp_path / "train.onnx", "--external-data=16")
    assert (tmp_path / "train.onnx.data").exists()
    result = call("train", tmp_path / "train.onnx", *linear[2:], "--steps", 3, "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("loss: ")

"""What a command is given, said or told to write: nothing is lost, ignored, or proved by nothing."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.commands import call
from support.nets import net, op

from caffe2_bridge import Model, load, save

SHAPE = ("--input", "x=float32[2]")


@pytest.fixture
def relu(tmp_path: Path) -> Path:
    save(Model.of(net(op("Relu", "x", "y"))), tmp_path / "relu")
    return tmp_path / "relu"


@pytest.fixture
def images(tmp_path: Path) -> Path:
    shapes = {"w": [2, 1, 3, 3], "v": [3, 72], "b": [3]}
    fills = [op("ConstantFill", "", name, shape=shape, value=0.1) for name, shape in shapes.items()]
    weights = net(*fills, inputs="", outputs="w v b")
    predict = net(op("Conv", "x w", "c", kernel=3), op("FC", "c v b", "y"), inputs="x w v b")
    save(Model.of(predict, weights), tmp_path / "images")
    return tmp_path / "images"


def refused(reason: str, *words: object) -> None:
    result = call(*words)
    assert result.exit_code == 2, result.output
    assert reason in result.stderr
    assert "internal error" not in result.stderr


def test_a_package_replaces_packages_alone(relu: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "notes.txt").write_text("precious")
    refused("files that are not of a package", "package", relu, *SHAPE, "--for", "web", "-o", mine)
    refused("files that are not of a package", "package", relu, *SHAPE, "--for", "web", "-o", relu)
    refused("this is a file", "package", relu, *SHAPE, "--for", "web", "-o", mine / "notes.txt")
    assert (mine / "notes.txt").read_text() == "precious"
    load(relu)
    for _ in range(2):
        assert call("package", relu, *SHAPE, "--for", "web", "-o", tmp_path / "served").exit_code == 0


def test_an_installation_of_caffe2_empties_no_folder(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$@" >> "$0.log"\nexit 1\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("precious")
    refused("has other files", "oracle", "install", "--python", python, tmp_path / "mine")
    assert not Path(f"{python}.log").exists()
    refused(f"{python} is no CPython 3.8", "oracle", "install", "--python", python, tmp_path / "new")


def test_what_is_read_is_not_written_over(relu: Path, tmp_path: Path) -> None:
    inputs, predict = tmp_path / "in.npz", relu / "predict_net.pb"
    np.savez(inputs, x=np.ones(2, np.float32))
    (tmp_path / "link").symlink_to(predict)
    before = predict.read_bytes()
    for output in (predict, relu / "init_net.pb", tmp_path / "link"):
        refused("would be lost", "export", relu, *SHAPE, "-o", output)
        refused("would be lost", "export", predict, *SHAPE, "-o", output)
        refused("would be lost", "show", relu, "--html", output)
    refused("would be lost", "run", relu, "--inputs", inputs, "-o", inputs)
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "summary.json").write_text("{}")
    refused("would be lost", "batch", "trends", tmp_path / "old", tmp_path, "-o", tmp_path / "old" / "summary.json")
    refused("is given twice", "show", relu, "--html", tmp_path / "a", "--svg", tmp_path / "a")
    assert predict.read_bytes() == before
    assert np.load(inputs).files == ["x"]


def test_a_folder_is_not_standard_output(relu: Path, tmp_path: Path) -> None:
    calls = (
        ("import", tmp_path / "m.onnx"), ("train", relu, "--inputs", "in.npz", "--steps", 1), ("batch", tmp_path),
        ("batch", "discover", tmp_path), ("package", relu, "--for", "web"),
    )  # fmt: skip
    for words in calls:
        refused("cannot be written to standard output", *words, "-o", "-")
    refused("cannot be written to standard output", "demo", "-")
    refused("cannot be written to standard output", "validate", relu, "--repro", "-")
    refused("is a URL, and a local path is expected", "package", relu, "--for", "web", "-o", "memory://served")


def test_what_a_file_is_its_content_says(relu: Path, tmp_path: Path) -> None:
    onnx, net_file = tmp_path / "my model.bin", tmp_path / "net.onnx"
    assert call("export", relu, *SHAPE, "-o", onnx).exit_code == 0
    shutil.copy(relu / "predict_net.pb", net_file)
    for path in (onnx, net_file):
        assert call("show", path).exit_code == 0
        assert call("run", path, "--random-inputs").exit_code == 0
        compared = call("validate", path, *SHAPE, "--against", "onnxruntime-cpu", "--against", "onnx-reference")
        assert compared.exit_code == 0, compared.output
    assert call("check", net_file, *SHAPE).exit_code == 0
    refused(f"caffe2-bridge import '{onnx}' -o net", "export", onnx, "-o", tmp_path / "again.onnx")


def test_one_runtime_proves_nothing(relu: Path) -> None:
    alone = call("validate", relu, *SHAPE, "--against", "workspace")
    assert alone.exit_code == 2
    assert "could not run: workspace, *: there is nothing to compare it with" in alone.stderr
    failures = json.loads(call("validate", relu, *SHAPE, "--against", "workspace", "--json").stdout)["failures"]
    assert [failure["side"] for failure in failures] == ["workspace"]
    refused("named twice", "validate", relu, *SHAPE, "--against", "workspace", "--against", "workspace")


def test_seeds_are_not_negative(relu: Path, tmp_path: Path) -> None:
    outputs = {"run": ("--random-inputs",), "validate": (), "profile": ("-o", tmp_path / "p"), "train": ()}
    for command, words in outputs.items():
        refused("--seed", command, relu, *words, "--seed", -1)


def test_given_sizes_hold_beside_open_ones(images: Path, tmp_path: Path) -> None:
    made = call("run", images, "--random-inputs", "--input", "x=float32[2,1,8,W]", "-o", tmp_path / "o.npz")
    assert made.exit_code == 0, made.output
    assert "synthesized input x: float32[2, 1, 8, 8]" in made.stderr
    assert np.load(tmp_path / "o.npz")["y"].shape == (2, 3)


def test_descriptions_that_contradict(images: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.ones((4, 1, 8, 8), np.float32))
    refused("described twice", "check", images, "--input", "x=[2,1,8,8]", "--input", "x=[3,1,8,8]")
    refused("expected NAME=DTYPE", "check", images, "--input", "x=[2,1,8,-8]")
    described = ("--inputs", tmp_path / "in.npz", "--input", "x=float32[2,1,8,8]")
    refused("described as [2,1,8,8]", "validate", images, *described)
    refused("described as [2,1,8,8]", "profile", images, *described, "-o", tmp_path / "p.json")
    refused("no operator reads input 'z'", "show", images, "--html", tmp_path / "s.html", "--input", "z=float32[1]")


def test_a_profile_is_of_the_net_that_is_drawn(relu: Path, images: Path, tmp_path: Path) -> None:
    assert call("profile", images, "-o", tmp_path / "times.json", "--runs", 1).exit_code == 0
    page = ("--html", tmp_path / "s.html", "--profile", tmp_path / "times.json")
    refused("of another net", "show", relu, *page)
    assert call("show", images, *page).exit_code == 0


def test_options_without_an_effect_are_refused(relu: Path, tmp_path: Path) -> None:
    target = ("-o", tmp_path / "m.onnx")
    refused("--fp16-io is for --fp16", "export", relu, *SHAPE, *target, "--fp16-io", "float32")
    refused("--verify has the tolerances", "export", relu, *SHAPE, *target, "--verify", "--fp16")
    refused("--full-lengths promises", "export", relu, *SHAPE, *target, "--verify", "--full-lengths")
    refused("--certify is for fused", "export", relu, *SHAPE, *target, "--certify", "--recurrent", "scan")
    assert not (tmp_path / "m.onnx").exists()
    assert "nothing to certify" in call("export", relu, *SHAPE, *target, "--certify").stderr
    refused("add --random-inputs", "run", tmp_path / "m.onnx", "--seed", 3)
    refused("--caffe2-python is for", "validate", relu, "--against", "workspace", "--caffe2-python", "/nothing")
    refused("of databases does not exist", "show", relu, "--databases", tmp_path / "nothing")
    refused("of databases does not exist", "convert", relu, tmp_path / "w.npz", "--databases", tmp_path / "nothing")
    refused("NAME=DEVICE needs a name", "import", tmp_path / "m.onnx", "-o", tmp_path / "n", "--device", "=cuda:0")
    twice = ("--device", "x=cuda:0", "--device", "x=cuda:1")
    refused("give each name once", "import", tmp_path / "m.onnx", "-o", tmp_path / "n", *twice)


def test_options_that_find_nothing_say_so(relu: Path, tmp_path: Path) -> None:
    words = ("--reroll", "--recompute", "steps", "--full-lengths")
    said = call("export", relu, *SHAPE, "-o", tmp_path / "m.onnx", *words)
    assert said.exit_code == 0, said.output
    assert [line.split()[1] for line in said.stderr.splitlines()] == ["--reroll", "--recompute", "--full-lengths"]
    lengths = call("export", "models/char_rnn", "-o", tmp_path / "rnn.onnx", "--full-lengths")
    assert "no effect" not in lengths.stderr
    compared = call("validate", relu, *SHAPE, "--against", "workspace", "--against", "onnxruntime-cpu", "--steps", 2)
    assert "--steps has no effect" in compared.stderr


def test_options_that_no_runtime_uses_are_refused(relu: Path, tmp_path: Path) -> None:
    onnx, nets = tmp_path / "m.onnx", ("--against", "workspace", "--against", "pytorch")
    assert call("export", relu, *SHAPE, "-o", onnx).exit_code == 0
    refused("--recurrent is for the export of MODEL", "validate", relu, *nets, "--recurrent", "scan")
    refused("--for is for the export of MODEL", "validate", onnx, "--for", "tract")
    exports = ("--against", "onnxruntime-cpu", "--against", "onnx-reference")
    assert call("validate", relu, *SHAPE, *exports, "--recurrent", "scan").exit_code == 0
    refused("--device is for onnxruntime-cuda and workspace", "validate", relu, *exports, "--device", "cuda:0")
    refused("an ONNX model has its weights", "validate", onnx, "--random-weights")
    refused("an ONNX model has its weights", "run", onnx, "--random-inputs", "--random-weights")


def test_a_path_is_not_empty(relu: Path) -> None:
    refused("must not be empty", "export", relu, *SHAPE, "-o", "")
    refused("must not be empty", "convert", relu, "-o", "")
    refused("must not be empty", "check", "")


def test_what_standard_output_cannot_have_is_not_said_to_be_written(images: Path) -> None:
    shape = ("--input", "x=float32[1,1,8,8]")
    for words in (("convert", images, "-"), ("export", images, *shape, "--external-data=1", "-o", "-")):
        result = call(*words)
        assert result.exit_code == 2
        assert "more than one file" in result.stderr.splitlines()[-1]
        assert "-: " not in result.stderr
        assert result.stdout == ""


def test_commands_to_type_are_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "cd ./-x\n" in call("demo", "--", "-x").stdout
    assert "cd './-my nets'\n" in call("demo", "--", "-my nets").stdout


def test_a_profile_says_what_is_synthesized(images: Path, tmp_path: Path) -> None:
    (images / "init_net.pb").unlink()
    shape, target = ("--input", "x=float32[2,1,8,8]"), ("-o", tmp_path / "times.json", "--runs", 1)
    made = call("profile", images, *shape, *target)
    assert made.exit_code == 0, made.output
    assert "synthesized input x: float32[2, 1, 8, 8] (seed 2018)" in made.stderr
    assert "synthesized weights: 3 (seed 2018)" in made.stderr
    np.savez(tmp_path / "in.npz", x=np.ones((2, 1, 8, 8), np.float32))
    given = call("profile", images, "--inputs", tmp_path / "in.npz", *target)
    assert "synthesized input" not in given.stderr
    assert "synthesized weights: 3 (seed 2018)" in given.stderr


def test_a_check_says_that_weights_are_missing(images: Path) -> None:
    (images / "init_net.pb").write_bytes(b"")
    checked = call("check", images, "--input", "x=float32[2,1,8,8]")
    assert checked.exit_code == 0
    assert "covered, without the values of its parameters" in checked.stdout
    assert "the init net init_net.pb is empty" in checked.stderr
    assert "export needs --no-weights" in checked.stderr


def test_a_text_net_beside_another_binary_one(relu: Path, images: Path, tmp_path: Path) -> None:
    refused("is read before predict_net.pbtxt", "convert", images, relu, "--format", "pbtxt")
    assert not (relu / "predict_net.pbtxt").exists()
    assert call("convert", relu, relu, "--format", "pbtxt").exit_code == 0
    assert call("convert", images, tmp_path / "text", "--format", "pbtxt", "--verify").exit_code == 0


def test_errors_of_weights_name_the_file(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"\0\1\2 nothing")
    refused(str(tmp_path / "w.bin"), "convert", tmp_path / "w.bin", tmp_path / "w.npz")


def test_a_plugin_that_ends_the_program(relu: Path, tmp_path: Path) -> None:
    (tmp_path / "plugin.py").write_text("import sys\nsys.exit(0)\n")
    refused("SystemExit", "check", relu, "--plugin", tmp_path / "plugin.py")


def test_limits_and_debug_stand_behind_the_command_too(images: Path, tmp_path: Path) -> None:
    text = tmp_path / "text"
    save(load(images), text, "pbtxt")
    found = call("show", text, "--limit", "text_bytes=10")
    assert found.exit_code == 2
    hint = found.stderr.partition("raise the limit: ")[2].partition(", or ")[0].split()
    refused("is not a limit", "show", text, "--limit", "bogus=1")
    assert hint[0] == "--limit"
    assert "text_bytes=" in call("--limit", "text_bytes=10", "show", text, *hint, "--debug").stderr


def test_a_batch_of_nothing_says_so(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    refused(f"{tmp_path / 'empty'} has no models", "batch", tmp_path / "empty", "-o", tmp_path / "out")
    refused("is the folder of the models", "batch", tmp_path / "empty", "-o", tmp_path / "empty" / ".")


def test_a_batch_tries_again_what_a_limit_ended(relu: Path, tmp_path: Path) -> None:
    (tmp_path / "zoo").mkdir()
    shutil.copytree(relu, tmp_path / "zoo" / "relu")
    words = ("batch", tmp_path / "zoo", "-o", tmp_path / "out", "--against", "workspace", "--against", "onnx-reference")
    for seconds in (0, -1, "nan"):
        refused("positive number of seconds", *words, "--seconds", seconds)
    assert call(*words, "--seconds", 1e-9).exit_code == 2
    again = call(*words)
    assert again.exit_code != 2, again.output


@pytest.mark.parametrize("values", [np.zeros((0, 2), np.float32), np.full((1, 2), np.nan, np.float32)])
def test_a_verdict_says_that_no_number_was_compared(relu: Path, tmp_path: Path, values: Any) -> None:
    np.savez(tmp_path / "in.npz", x=values)
    runtimes = ("--against", "onnxruntime-cpu", "--against", "onnx-reference")
    words = ("validate", relu, "--inputs", tmp_path / "in.npz", *runtimes)
    result = call(*words)
    assert result.exit_code == 0, result.output
    assert "no number is compared" in result.stdout
    np.savez(tmp_path / "in.npz", x=np.ones((1, 2), np.float32))
    assert "no number is compared" not in call(*words).stdout

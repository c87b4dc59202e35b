"""The command line's own words."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from caffe2_cli.commands import main

COMMANDS = {
    "check": (
        "MODEL", "--init", "--input NAME=DTYPE[DIMS]", "--output NAME", "--json",
        "Exit codes: 0 All of MODEL converts. 1 There are findings. 2 It could not be done. 130 Ctrl-C ended it.",
        "--plugin MODULE",
    ),
    "export": (
        "MODEL", "--init", "--input NAME=DTYPE[DIMS]", "--to [onnx|torch]", "-o, --out PATH", "[required]",
        "--output NAME",
        "--opset", "--recurrent [auto|fused|scan|loop|portable|gpu|unrolled]", "default: auto", "2 GB",
        "--recompute [none|steps]",
        "--int8 [exact|qdq]", "--fp16", "--fp16-io [float16|float32]", "--external-data [BYTES]",
        "--fold-batchnorm / --no-fold-batchnorm", "--full-lengths", "--for RUNTIME",
    ),
    "run": (
        "MODEL", "--init", "--inputs PATH", "--random-inputs", "--input NAME=DTYPE[DIMS]", "--seed",
        "-o, --out PATH", "--output NAME", "--device TEXT", "cuda:N",
    ),
    "show": ("MODEL", "--init", "Summarize"),
    "ops": ("--json", "by family"),
    "import": (
        "MODEL", "--input NAME=DTYPE[DIMS]", "-o, --out PATH", "--foreign [error|carry]", "--device [NAME=]DEVICE",
        "--int8", "--format", "--plugin MODULE",
    ),
    "convert": ("MODEL [OUT]", "--predictor NAME", "--format [pb|pbtxt|minidb|lmdb|leveldb|safetensors|npz|pt]"),
    "validate": (
        "--other PATH", "--output NAME", "--against RUNTIME", "--device TEXT", "--steps", "--lockstep", "--report PATH",
        "0 They agree. 1 They disagree.",
    ),
    "batch": (
        "SOURCE", "processes with limits", "--engine TEXT", "dask://HOST:PORT", "--device TEXT", "--seconds",
        "--memory SIZE", "manifest", "`batch discover --help`",
    ),
    "train": (
        "MODEL", "--init", "--inputs PATH", "STEP/INPUT", "--steps", "--batch-size", "--loss NAME",
        "-o, --out PATH", "--checkpoint-every STEPS", "default: 100", "--resume FOLDER", "--device TEXT",
        "--recompute [none|steps]",
        "exit code is then 130",
    ),
    "python": ("PROGRAM", "--caffe2 DIR", "-m", "--device", "ARGUMENTS"),
    "oracle": ("install",),
    "demo": ("[FOLDER]", "caffe2-bridge-demo by default", "an LSTM and a CNN"),
    "doctor": ("--json", "what is missing", "0 Conversions and onnxruntime work."),
}  # fmt: skip


def help_of(*words: str) -> str:
    result = CliRunner().invoke(main, [*words, "--help"], prog_name="caffe2-bridge")
    assert result.exit_code == 0
    return re.sub(r"\s+", " ", result.output)


def test_the_commands_are_listed() -> None:
    text = help_of()
    assert text.startswith("Usage: caffe2-bridge [OPTIONS] COMMAND [ARGS]...")
    assert "MODEL is a folder with a predict net and an init net, a predict net's file" in text
    for name in COMMANDS:
        assert f" {name} " in text.partition("Commands:")[2]


@pytest.mark.parametrize("command", COMMANDS)
def test_each_commands_help(command: str) -> None:
    text = help_of(command)
    assert text.startswith(f"Usage: caffe2-bridge {command} [OPTIONS]")
    for words in COMMANDS[command]:
        assert words in text


def test_the_help_of_batch_actions() -> None:
    assert help_of("batch", "discover").startswith("Usage: caffe2-bridge batch discover [OPTIONS] FOLDER")
    assert help_of("batch", "trends").startswith("Usage: caffe2-bridge batch trends [OPTIONS] OLD NEW")


def test_the_short_form_and_the_version() -> None:
    assert CliRunner().invoke(main, ["-h"]).output == CliRunner().invoke(main, ["--help"]).output
    assert re.fullmatch(
        r"caffe2-bridge, version \d+\.\d+\.\d+(rc\d+)?\n", CliRunner().invoke(main, ["--version"]).output
    )


def test_no_command_and_unknown_ones_are_usage() -> None:
    assert CliRunner().invoke(main, []).exit_code == 2
    result = CliRunner().invoke(main, ["explode"])
    assert result.exit_code == 2
    assert "No such command 'explode'" in result.output

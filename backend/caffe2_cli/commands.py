"""The command line, ``caffe2-bridge``: a group of commands, each in a module of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import click

from caffe2_cli.command import general_options, write_example, write_exit_codes
from caffe2_cli.errors import printed_diagnostics
from caffe2_cli.exit_codes import EXIT_CODES
from caffe2_cli.lazy_group import CommandEntry, LazyGroup

_ROOT: Final = "caffe2_cli.subcommands"
COMMANDS: Final[Mapping[str, CommandEntry]] = {
    "batch": CommandEntry(
        f"{_ROOT}.batch",
        "Check, export and validate every model of SOURCE, in processes with limits of time and memory.",
    ),
    "check": CommandEntry(f"{_ROOT}.check", "Report everything in MODEL that does not convert to ONNX."),
    "convert": CommandEntry(
        f"{_ROOT}.convert",
        "Write MODEL, a Caffe2 model, to OUT in another of Caffe2's formats, or its weights for another framework.",
    ),
    "demo": CommandEntry(
        f"{_ROOT}.demo",
        "Write two small trained models, an LSTM and a CNN, into FOLDER, and print what to try with them.",
    ),
    "doctor": CommandEntry(
        f"{_ROOT}.doctor", "Report versions, GPUs and real Caffe2, what is missing, and the line that installs it."
    ),
    "export": CommandEntry(f"{_ROOT}.export", "Convert MODEL to ONNX."),
    "import": CommandEntry(f"{_ROOT}.import_", "Convert MODEL, an .onnx file, to a Caffe2 net and its init net."),
    "ops": CommandEntry(f"{_ROOT}.ops", "List the Caffe2 operators that convert, by family."),
    "oracle": CommandEntry(f"{_ROOT}.oracle", "Real Caffe2, to compare with."),
    "package": CommandEntry(
        f"{_ROOT}.package",
        "Write a folder that serves MODEL: its ONNX file, a server's configuration, a sample, and a card.",
    ),
    "profile": CommandEntry(f"{_ROOT}.profile", "Measure how long each operator of MODEL takes on onnxruntime."),
    "python": CommandEntry(f"{_ROOT}.python", "Run PROGRAM, a Python program that imports caffe2, on onnxruntime."),
    "run": CommandEntry(f"{_ROOT}.run", "Run MODEL once on onnxruntime."),
    "show": CommandEntry(
        f"{_ROOT}.show", "Summarize MODEL: inputs, outputs, operators, parameters and their sizes. Or draw it."
    ),
    "train": CommandEntry(f"{_ROOT}.train", "Train MODEL, a Caffe2 training net or its export, on onnxruntime."),
    "validate": CommandEntry(
        f"{_ROOT}.validate", "Compare what runtimes compute for MODEL, and find where they disagree."
    ),
}


class Program(LazyGroup):
    """The group of all commands: its help has the table of exit codes and an example."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the exit codes of all commands, and an example."""
        del ctx
        write_exit_codes(formatter, EXIT_CODES)
        write_example(formatter, "caffe2-bridge export models/char_rnn -o char_rnn.onnx --verify")


# max_content_width: help is as wide as the terminal.
@click.group(
    cls=Program, entries=COMMANDS, params=general_options(),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 10_000},
)  # fmt: skip
@click.version_option(None, "-V", "--version", package_name="caffe2-bridge", prog_name="caffe2-bridge")
@click.pass_context
def main(context: click.Context) -> None:
    """Convert Caffe2 nets to ONNX and back, run them on onnxruntime, and compare runtimes.

    MODEL is a folder with a predict net and an init net, a predict net's file, a predictor database, or an .onnx file.
    """
    context.with_resource(printed_diagnostics())

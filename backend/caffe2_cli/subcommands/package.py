"""``caffe2-bridge package``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from caffe2_cli import options
from caffe2_cli.command import Outcome, command
from caffe2_cli.exit_codes import NO, YES
from caffe2_cli.model_source import ModelSource
from caffe2_cli.output.console import progress
from caffe2_cli.output.echo import echo, say_files
from caffe2_cli.plugins import plugin


@command(
    example="caffe2-bridge package models/char_rnn --for triton -o repository", schema=1, findings=NO,
    codes={YES: "The folder is written.", NO: "MODEL does not convert."},
)  # fmt: skip
@options.model
@options.inputs
@click.option(
    "--for", "layout", required=True, type=click.Choice(["triton", "kserve", "web", "mobile"]), help="What serves it."
)
@options.out("folder", "The folder to write", required=True, type=options.LOCAL)
@click.option("--name", default="", help="What the server calls the model; by default the net's name.")
@click.option("--licence", "--license", default="", help="The licence of the model, for its card.")
@options.seed
@plugin
def package(
    model: ModelSource, inputs: dict[str, Any], layout: str, folder: Path, name: str, licence: str, seed: int
) -> Outcome:
    """Write a folder that serves MODEL: its ONNX file, a server's configuration, a sample, and a card.

    The sample has expected outputs, of real Caffe2 where it is installed. A package that is in the folder is replaced.
    """
    from caffe2_deploy import LAYOUTS, gather
    from caffe2_deploy import package as write
    from caffe2_deploy.layouts import require_replaceable
    from caffe2_validation.options import ValidationOptions

    require_replaceable(folder)
    with progress("packaging"):
        loaded = model.load()
        options = ValidationOptions(described=inputs, seed=seed)
        contents = gather(loaded, name=name, target=LAYOUTS[layout].target, licence=licence, options=options)
        written = write(contents, layout, folder)
    say_files(written)
    echo(f"compared: {contents.report.verdict_text}")
    return Outcome({"files": [str(path) for path in written], "verdict": contents.report.verdict})

"""``caffe2-bridge package``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from caffe2_bridge import load
from caffe2_bridge.storage import AnyPath
from caffe2_cli import options
from caffe2_cli.errors import reports_errors
from caffe2_cli.output.console import progress
from caffe2_cli.output.echo import echo


@click.command()
@options.model
@options.init
@options.databases
@options.inputs
@click.option(
    "--for", "layout", required=True, type=click.Choice(["triton", "kserve", "web", "mobile"]), help="What serves it."
)
@click.option("-o", "--output", "folder", required=True, type=click.Path(path_type=Path), help="The folder to write.")
@click.option("--name", default="", help="What the server calls the model; by default the net's name.")
@click.option("--licence", "--license", default="", help="The licence of the model, for its card.")
@options.seed
@reports_errors()
def package(
    model: AnyPath, init: AnyPath | None, databases: AnyPath | None, inputs: dict[str, Any], layout: str, folder: Path,
    name: str, licence: str, seed: int,
) -> None:  # fmt: skip
    """Write a folder that serves MODEL: its ONNX file, a server's configuration, a sample, and a card.

    The sample has expected outputs, of real Caffe2 where it is installed. What was in the folder is replaced.
    """
    from caffe2_deploy import LAYOUTS, gather
    from caffe2_deploy import package as write
    from caffe2_validation.options import ValidationOptions

    with progress("packaging"):
        loaded = load(model, init, databases=databases)
        options = ValidationOptions(described=inputs, seed=seed)
        contents = gather(loaded, name=name, target=LAYOUTS[layout].target, licence=licence, options=options)
        written = write(contents, layout, folder)
    for path in written:
        echo(f"{path}: {path.stat().st_size:,} bytes")
    echo(f"compared: {contents.report.verdict_text}")

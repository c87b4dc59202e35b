"""``caffe2-bridge show``."""

from __future__ import annotations

import click

from caffe2_bridge import load
from caffe2_bridge.storage import AnyPath
from caffe2_cli import options
from caffe2_cli.errors import reports_errors
from caffe2_cli.output.console import progress
from caffe2_cli.output.echo import echo
from caffe2_cli.output.tables import print_table


@click.command()
@options.model
@options.init
@options.predictor
@click.option("--svg", type=options.LOCATION, help="Draw the net into this file instead (needs graphviz).")
@reports_errors()
def show(model: AnyPath, init: AnyPath | None, predictor: str | None, svg: AnyPath | None) -> None:
    """Summarize MODEL: inputs, outputs, operators, parameters and their sizes. Or draw it."""
    from caffe2_cli.output.summary import summarize

    is_onnx = model.suffix == ".onnx"
    if is_onnx and (init is not None or predictor is not None):
        raise click.UsageError("--init and --predictor are for Caffe2 models")
    loaded = model if is_onnx else load(model, init, predictor=predictor)
    if svg is None:
        for table in summarize(loaded):
            print_table(table)
        return
    from caffe2_backend.picture import draw

    with progress("drawing"):
        draw(loaded, svg)
    echo(f"{svg}: {svg.stat().st_size:,} bytes")

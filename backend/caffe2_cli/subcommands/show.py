"""``caffe2-bridge show``."""

from __future__ import annotations

import click

from caffe2_bridge.storage import AnyPath
from caffe2_cli import options
from caffe2_cli.command import Outcome, command
from caffe2_cli.exit_codes import YES
from caffe2_cli.model_source import ModelSource
from caffe2_cli.output.console import progress
from caffe2_cli.output.echo import say_files
from caffe2_cli.output.tables import print_table


@command(example="caffe2-bridge show models/char_rnn", schema=1, codes={YES: "It is shown."})
@options.model
@click.option("--svg", type=options.OUTPUT, help="Draw the net into this file instead (needs graphviz).")
def show(model: ModelSource, svg: AnyPath | None) -> Outcome:
    """Summarize MODEL: inputs, outputs, operators, parameters and their sizes. Or draw it."""
    from caffe2_cli.output.summary import summarize

    read = model.read()
    if svg is None:
        summary = summarize(read)
        for table in summary.tables():
            print_table(table)
        return Outcome(summary.to_dict())
    from caffe2_backend.picture import draw

    with progress("drawing"):
        draw(read, svg)
    say_files([svg])
    return Outcome({"files": [str(svg)]})

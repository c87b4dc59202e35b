"""``caffe2-bridge show``."""

from __future__ import annotations

from typing import Any

import click

from caffe2_bridge import Profile
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
@click.option("--html", type=options.OUTPUT, help="Write an interactive picture into this file instead.")
@click.option("--svg", type=options.OUTPUT, help="Draw the net into this file instead (needs graphviz).")
@options.inputs
@click.option("--profile", type=options.LOCATION, help="With --html: times of operators, from the command profile.")
def show(
    model: ModelSource, html: AnyPath | None, svg: AnyPath | None, inputs: dict[str, Any], profile: AnyPath | None
) -> Outcome:
    """Summarize MODEL: inputs, outputs, operators, parameters and their sizes. Or draw it."""
    from caffe2_backend.picture.summary import summarize
    from caffe2_cli.output.summary import summary_tables

    read = model.read()
    if (inputs or profile is not None) and (html is None or model.is_onnx):
        raise click.UsageError("--input and --profile need --html and a Caffe2 model")
    if svg is None and html is None:
        summary = summarize(read)
        for table in summary_tables(summary):
            print_table(table)
        return Outcome(summary.to_dict())
    with progress("drawing"):
        if html is not None:
            from caffe2_backend.picture import picture_html
            from caffe2_frontend.interop.files.onnx_files import replacing

            text = picture_html(read, inputs=inputs, profile=None if profile is None else Profile.read(profile))
            with replacing(html) as file:
                file.write(text.encode())
        if svg is not None:
            from caffe2_backend.picture import draw

            draw(read, svg)
    written = [path for path in (html, svg) if path is not None]
    say_files(written)
    return Outcome({"files": [str(path) for path in written]})

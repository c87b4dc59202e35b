"""``caffe2-bridge convert``."""

from __future__ import annotations

import click

from caffe2_bridge import load, save
from caffe2_bridge.files import FORMATS
from caffe2_bridge.storage import AnyPath, walk
from caffe2_cli import options
from caffe2_cli.errors import reports_errors
from caffe2_cli.output.console import progress
from caffe2_cli.output.echo import echo


@click.command()
@options.model
@click.argument("target", metavar="OUT", type=options.LOCATION)
@options.init
@options.predictor
@click.option(
    "--format", "layout", type=click.Choice(FORMATS), default="pb", show_default=True,
    help="pb and pbtxt: a folder with two nets; minidb: a database in a file; lmdb, leveldb: a database in a folder.",
)  # fmt: skip
@reports_errors()
def convert(model: AnyPath, target: AnyPath, init: AnyPath | None, predictor: str | None, layout: str) -> None:
    """Write MODEL, a Caffe2 model, to OUT in another of Caffe2's formats.

    OUT is replaced once the new model is complete.
    """
    with progress("converting"):
        save(load(model, init, predictor=predictor), target, layout)
    files = [file for _, files in walk(target) for file in files] if target.is_dir() else [target]
    echo(f"{target}: {layout}, {sum(file.stat().st_size for file in files):,} bytes")

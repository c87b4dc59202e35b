"""Print text that may hold names from models: whatever they hold, the terminal only shows it."""

from __future__ import annotations

import click

from caffe2_bridge.diagnostics.printable import printable


def echo(text: object = "", *, err: bool = False) -> None:
    """Print a line, or several; characters that are not printable are escaped."""
    click.echo(printable(str(text), keep="\n\t"), err=err)

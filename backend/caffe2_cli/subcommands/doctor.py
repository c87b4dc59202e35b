"""``caffe2-bridge doctor``."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click
from rich.table import Table

from caffe2_cli import options
from caffe2_cli.errors import FAILED
from caffe2_cli.output.echo import echo
from caffe2_cli.output.tables import cell, print_table

if TYPE_CHECKING:  # the command line starts without it
    from caffe2_cli.installation import Installation

_GIB = 1 << 30


@click.command()
@options.as_json("report")
def doctor(as_json: bool) -> None:
    """Report versions, GPUs and real Caffe2, what is missing, and the line that installs it.

    Exit code 0: conversions and onnxruntime work, 1: they do not.
    """
    from caffe2_cli.installation import inspect_installation

    found = inspect_installation()
    if as_json:
        echo(json.dumps(found.to_dict(), indent=2))
    else:
        _print(found)
    if found.problems:
        sys.exit(FAILED)


def _print(found: Installation) -> None:
    echo(f"caffe2-bridge {found.version}, Python {found.python}, {found.platform}")
    table = Table("package", "extra", "version", "supported", "to install")
    for package in found.packages:
        command = "" if package.state == "ok" else package.command
        shown = package.version or "missing"
        table.add_row(*map(cell, (package.name, package.extra, shown, package.wanted, command)))
    print_table(table)
    echo(f"onnxruntime: {', '.join(found.providers) or 'cannot be imported'}")
    for index, gpu in enumerate(found.gpus):
        capability = f"compute capability {gpu['major']}.{gpu['minor']}"
        echo(f"cuda:{index}: {gpu['name']}, {gpu['totalGlobalMem'] / _GIB:.0f} GiB, {capability}")
    if found.no_gpu and found.providers:
        echo(f"GPU: {found.no_gpu}")
    if found.caffe2:
        echo("real Caffe2: " + ", ".join(f"{name} {value}" for name, value in found.caffe2.items()))
    else:
        echo(f"real Caffe2 (optional): {found.no_caffe2}")
    for problem in found.problems:
        echo(f"problem: {problem.reason}\n  {problem.cure}")
    if not found.problems:
        echo("No problems found.")

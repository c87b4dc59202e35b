"""``caffe2-bridge ops``."""

from __future__ import annotations

import json

import click
from rich.table import Table

from caffe2_cli import options
from caffe2_cli.output.echo import echo
from caffe2_cli.output.tables import print_table


@click.command()
@options.as_json("table")
def ops(as_json: bool) -> None:
    """List the Caffe2 operators that convert to ONNX, by family."""
    from caffe2_frontend import supported_operators

    rows = supported_operators()
    if as_json:
        echo(json.dumps(rows, indent=2))
        return
    table = Table("family", "Caffe2 operators", title=f"{sum(map(len, rows.values()))} operators", title_justify="left")
    for name, types in rows.items():
        table.add_row(name, ", ".join(types))
    print_table(table)

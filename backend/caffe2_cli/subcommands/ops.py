"""``caffe2-bridge ops``."""

from __future__ import annotations

import json
from collections.abc import Mapping

import click
from rich.table import Table

from caffe2_cli import options
from caffe2_cli.errors import reports_errors
from caffe2_cli.output.echo import echo
from caffe2_cli.output.tables import print_table


@click.command()
@options.as_json("table")
@click.option(
    "--to", type=click.Choice(["onnx", "torch"]), default="onnx", show_default=True,
    help="What they convert to; modules of PyTorch need the extra torch.",
)  # fmt: skip
@reports_errors()
def ops(as_json: bool, to: str) -> None:
    """List the Caffe2 operators that convert, by family."""
    rows = _modules() if to == "torch" else _exports()
    if as_json:
        echo(json.dumps(rows, indent=2))
        return
    table = Table("family", "Caffe2 operators", title=f"{sum(map(len, rows.values()))} operators", title_justify="left")
    for name, types in rows.items():
        table.add_row(name, ", ".join(types))
    print_table(table)


def _exports() -> Mapping[str, tuple[str, ...]]:
    from caffe2_frontend import supported_operators

    return supported_operators()


def _modules() -> Mapping[str, tuple[str, ...]]:
    from caffe2_validation.runtimes import find_runtime

    find_runtime("pytorch")  # raises RunError if PyTorch is not installed
    from caffe2_torch import supported_operators

    return {"pytorch": supported_operators()}

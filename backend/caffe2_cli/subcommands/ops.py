"""``caffe2-bridge ops``."""

from __future__ import annotations

from collections.abc import Mapping

import click
from rich.table import Table

from caffe2_cli.command import Outcome, command
from caffe2_cli.exit_codes import YES
from caffe2_cli.output.tables import is_terminal, print_table
from caffe2_cli.plugins import plugin


@command(example="caffe2-bridge ops", schema=1, codes={YES: "The operators are listed."})
@click.option(
    "--to", type=click.Choice(["onnx", "torch"]), default="onnx", show_default=True,
    help="What they convert to; modules of PyTorch need the extra torch.",
)  # fmt: skip
@plugin
def ops(to: str) -> Outcome:
    """List the Caffe2 operators that convert, by family. In a pipe each has a line of its own."""
    families = _modules() if to == "torch" else _exports()
    count = sum(map(len, families.values()))
    table = Table("family", "Caffe2 operators", title=f"{count} operators", title_justify="left")
    for family, types in families.items():
        for text in [", ".join(types)] if is_terminal() else types:
            table.add_row(family, text)
    print_table(table)
    return Outcome({"families": families})


def _exports() -> Mapping[str, tuple[str, ...]]:
    from caffe2_frontend import supported_operators

    return supported_operators()


def _modules() -> Mapping[str, tuple[str, ...]]:
    from caffe2_validation.runtimes import find_runtime

    find_runtime("pytorch")  # raises RunError if PyTorch is not installed
    from caffe2_torch import supported_operators

    return {"pytorch": supported_operators()}

"""``caffe2-bridge import``."""

from __future__ import annotations

from typing import Any

import click

from caffe2_backend.cli import options
from caffe2_backend.cli.errors import reports_errors
from caffe2_backend.cli.output.console import progress
from caffe2_backend.cli.output.echo import echo
from caffe2_bridge.storage import AnyPath


def _parse_placement(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> str | dict[str, str] | None:
    """Parse ``cuda:0`` for all operators, or ``NAME=cuda:0`` by input."""
    pairs = [value.rpartition("=") for value in values]
    named = {name: device for name, _, device in pairs if name}
    if len(named) == len(pairs):
        return named or None
    if len(pairs) > 1:
        raise click.BadParameter("give one device for all, or NAME=DEVICE for each: the two do not go together")
    return pairs[0][2]


@click.command(name="import")
@options.model
@click.option("-o", "--output", "target", required=True, type=options.LOCATION, help="The folder to write.")
@click.option(
    "--foreign", type=click.Choice(["error", "carry"]), default="error", show_default=True,
    help="Operators that Caffe2 lacks: report an error, or carry them as ONNX operators.",
)  # fmt: skip
@click.option(
    "--device", "devices", multiple=True, callback=_parse_placement, metavar="[NAME=]DEVICE",
    help="cpu or cuda:N: where operators run; or, repeatable, where an input or parameter is.",
)  # fmt: skip
@click.option(
    "--int8", is_flag=True, help="Compute quantized parts with Caffe2's Int8 operators, where it has such operators."
)
@click.option(
    "--format", "form", type=click.Choice(["pb", "pbtxt", "minidb"]), default="pb", show_default=True,
    help="The format of the nets.",
)  # fmt: skip
@reports_errors()
def import_(model: AnyPath, target: AnyPath, foreign: Any, devices: Any, int8: bool, form: Any) -> None:
    """Convert MODEL, an .onnx file, to a Caffe2 net and its init net."""
    from caffe2_backend.importer import import_model
    from caffe2_backend.options import ImportOptions
    from caffe2_bridge import save

    with progress("importing"):
        imported = import_model(model, ImportOptions(foreign, devices, int8=int8))
        save(imported.model, target, format=form)
    ops = imported.model.predict_net.op
    carried = sum(bool(op.domain) for op in ops)
    echo(
        f"{target}: {len(ops)} operators, {carried} carried as ONNX operators, "
        f"{sum(imported.restored.values())} restored from the Caffe2 net of an export"
    )

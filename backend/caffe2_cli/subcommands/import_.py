"""``caffe2-bridge import``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from caffe2_bridge.storage import AnyPath
from caffe2_cli import options
from caffe2_cli.command import Outcome, command
from caffe2_cli.exit_codes import NO, YES
from caffe2_cli.output.console import progress
from caffe2_cli.output.echo import say
from caffe2_cli.plugins import plugin

if TYPE_CHECKING:
    from caffe2_backend.importer import ImportedModel


def _parse_placement(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> str | dict[str, str] | None:
    """Parse ``cuda:0`` for all operators, or ``NAME=cuda:0`` by input."""
    pairs = [value.rpartition("=") for value in values]
    named = {name: device for name, _, device in pairs if name}
    if any(not name and equals for name, equals, _ in pairs):
        raise click.BadParameter("NAME=DEVICE needs a name")
    if len(named) < sum(bool(name) for name, _, __ in pairs):
        raise click.BadParameter("give each name once")
    if len(named) == len(pairs):
        return named or None
    if len(pairs) > 1:
        raise click.BadParameter("give one device for all, or NAME=DEVICE for each: the two do not go together")
    return pairs[0][2]


@command(
    name="import", example="caffe2-bridge import char_rnn.onnx -o net", schema=1, findings=NO,
    codes={YES: "MODEL is imported.", NO: "It does not convert, or --verify found a difference."},
)  # fmt: skip
@options.onnx_model
@options.inputs
@options.out("target", "The folder to write; a file with --format minidb", required=True)
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
@options.verify
@plugin
def import_(
    model: AnyPath, inputs: dict[str, Any], target: AnyPath, foreign: Any, devices: Any, int8: bool, form: Any,
    verify: bool,
) -> Outcome:  # fmt: skip
    """Convert MODEL, an .onnx file, to a Caffe2 net and its init net."""
    from caffe2_backend.importer import import_model
    from caffe2_backend.options import ImportOptions
    from caffe2_bridge import save

    start = time.perf_counter()
    with progress("importing"):
        imported = import_model(model, ImportOptions(foreign, devices, int8=int8, inputs=inputs))
        save(imported.model, target, format=form)
    seconds = time.perf_counter() - start
    written = f"{target}/ (predict_net.{form}, init_net.{form})" if form in ("pb", "pbtxt") else str(target)
    say(f"Wrote {written}: {_operators(imported)}.")
    net = imported.model
    say(f"inputs {', '.join(net.inputs) or 'none'}; outputs {', '.join(net.outputs)}; {seconds:.1f} s")
    ops = net.predict_net.op
    data = {
        "path": str(target), "format": form, "inputs": list(net.inputs), "outputs": list(net.outputs),
        "operators": len(ops), "carried": sum(bool(op.domain) for op in ops), "restored": imported.restored,
        "seconds": round(seconds, 3),
    }  # fmt: skip
    if not verify:
        return Outcome(data)
    from caffe2_cli.verification import verify as compare

    report = compare(model, target, described=inputs)
    return Outcome({**data, "verdict": report.verdict}, report.exit_code)


def _operators(imported: ImportedModel) -> str:
    """Return how many operators a net has, and which of them are not Caffe2's, or are those of an exported net."""
    ops = imported.model.predict_net.op
    carried, restored = sum(bool(op.domain) for op in ops), sum(imported.restored.values())
    if len(ops) == 1:
        count, kinds = "1 operator", "carried as an ONNX operator" if carried else "Caffe2's own"
    else:
        count = f"{len(ops)} operators"
        kinds = f"{carried} of them carried as ONNX operators" if carried else "all of them Caffe2's own"
    origin = f"; restored from the Caffe2 net of an export: {restored}" if restored else ""
    return f"{count}, {kinds}{origin}"

"""``caffe2-bridge export``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from caffe2_backend.cli import options
from caffe2_backend.cli.console import progress
from caffe2_backend.cli.errors import FAILED, reports_errors
from caffe2_bridge import Model, load


@click.command()
@options.model
@options.init
@options.databases
@options.inputs
@click.option("-o", "--output-file", "target", required=True, type=options.PATH, help="The .onnx file to write.")
@options.outputs
@click.option("--opset", type=int, help="The ONNX opset; default 20.")
@options.recurrent
@click.option("--stateful", is_flag=True, help="Recurrent states as inputs and outputs, to carry between calls.")
@click.option("--reroll", is_flag=True, help="Convert steps that were unrolled over time back to loops.")
@click.option(
    "--certify", is_flag=True,
    help="Run fused recurrent operators against their step nets first; exit 1 if they are not equal.",
)  # fmt: skip
@click.option(
    "--int8", type=click.Choice(["exact", "qdq"]), default="exact", show_default=True,
    help="Int8 operators as integer arithmetic equal to Caffe2's, or as QuantizeLinear and DequantizeLinear around "
    "float operators, which runtimes fuse.",
)  # fmt: skip
@reports_errors()
def export(
    model: Path, init: Path | None, databases: Path | None, target: Path, certify: bool, outputs: tuple[str, ...],
    **choices: Any,
) -> None:  # fmt: skip
    """Convert MODEL to ONNX. Weights above 2 GB go to a file in the same folder."""
    from caffe2_frontend import ExportOptions, convert, save_onnx

    loaded = load(model, init, databases=databases)
    if certify:
        _certify(loaded)
    with progress("exporting"):
        converted = convert(loaded, options=ExportOptions(outputs=outputs or None, **choices))
        written = save_onnx(converted, target)
    for path in written:
        click.echo(f"{path}: {path.stat().st_size:,} bytes")


def _certify(model: Model) -> None:
    from caffe2_backend.validation.certify import certify

    with progress("certifying"):
        certificates = certify(model)
    for certificate in certificates:
        click.echo(str(certificate))
    if not all(certificate.agrees for certificate in certificates):
        click.echo("error: a fused operator does not compute what the net computes; nothing was exported", err=True)
        sys.exit(FAILED)

"""``caffe2-bridge run``."""

from __future__ import annotations

import warnings

import click

from caffe2_backend.cli import options
from caffe2_backend.cli.errors import reports_errors
from caffe2_backend.cli.output.arrays import read_arrays, write_arrays
from caffe2_backend.cli.output.console import progress
from caffe2_backend.cli.output.echo import echo
from caffe2_bridge import load
from caffe2_bridge.storage import AnyPath


@click.command()
@options.model
@options.init
@options.databases
@click.option("--inputs", "source", type=options.LOCATION, help="An .npz file with an array for each input.")
@click.option("-o", "--outputs", "target", required=True, type=options.LOCATION, help="The .npz file to write.")
@options.outputs
@options.device
@reports_errors()
def run(
    model: AnyPath,
    init: AnyPath | None,
    databases: AnyPath | None,
    source: AnyPath | None,
    target: AnyPath,
    outputs: tuple[str, ...],
    device: str | None,
) -> None:
    """Run MODEL once on onnxruntime."""
    from caffe2_backend.runtime import Int8Tensor, Predictor

    arrays = read_arrays(source) if source else {}
    with progress("running"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loaded = model if model.suffix == ".onnx" else load(model, init, databases=databases)
        predictor = Predictor(loaded, device, outputs=outputs or None)
        found = predictor.run(arrays)
    for line in predictor.placement.describe().splitlines() if predictor.placement else ():
        echo(f"note: {line}", err=True)
    for warning in caught:
        echo(f"warning: {warning.message}", err=True)
    results = {name: value.data if isinstance(value, Int8Tensor) else value for name, value in found.items()}
    write_arrays(target, results)
    for name, array in results.items():
        echo(f"{name}: {array.dtype}{list(array.shape)}")

"""``caffe2-bridge run``."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import click

from caffe2_bridge import Model, load
from caffe2_bridge.storage import AnyPath
from caffe2_cli import options
from caffe2_cli.errors import reports_errors
from caffe2_cli.output.arrays import read_arrays, write_arrays
from caffe2_cli.output.console import progress
from caffe2_cli.output.echo import echo


@click.command()
@options.model
@options.init
@options.databases
@click.option("--inputs", "source", type=options.LOCATION, help="An .npz file with an array for each input.")
@click.option("--random-inputs", is_flag=True, help="Synthesize the inputs, as validate does.")
@options.inputs
@options.random_weights
@options.seed
@click.option("-o", "--outputs", "target", required=True, type=options.LOCATION, help="The .npz file to write.")
@options.outputs
@options.device
@reports_errors()
def run(
    model: AnyPath,
    init: AnyPath | None,
    databases: AnyPath | None,
    source: AnyPath | None,
    random_inputs: bool,
    inputs: dict[str, Any],
    random_weights: bool,
    seed: int,
    target: AnyPath,
    outputs: tuple[str, ...],
    device: str | None,
) -> None:
    """Run MODEL once on onnxruntime."""
    from caffe2_backend.runtime import Int8Tensor, Predictor

    if random_inputs and source:
        raise click.UsageError("--inputs and --random-inputs do not go together")
    if (inputs or random_weights) and not random_inputs:
        raise click.UsageError("--input and --random-weights are for inputs that are synthesized: add --random-inputs")
    arrays = read_arrays(source) if source else {}
    with progress("running"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loaded: Any = model if model.suffix == ".onnx" else load(model, init, databases=databases)
        if random_inputs:
            chosen = {"described": inputs, "outputs": outputs or None, "seed": seed, "random_weights": random_weights}
            loaded, arrays = _synthesized(loaded, chosen)
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


def _synthesized(model: Any, chosen: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the model, with the weights that it lacked, and inputs that fit it; print what was synthesized."""
    from caffe2_backend.runtime import Int8Tensor
    from caffe2_validation.api import synthesize
    from caffe2_validation.options import ValidationOptions
    from caffe2_validation.sizes import SIZES

    made = synthesize(model, ValidationOptions(sizes=SIZES[:1], **chosen))
    case = made.cases[0]
    for name, value in case.inputs.items():
        array = value.data if isinstance(value, Int8Tensor) else value
        echo(f"synthesized input {name}: {array.dtype}{list(array.shape)} (seed {case.seed})", err=True)
    if made.weights:
        echo(f"synthesized weights: {len(made.weights)} (seed {case.seed})", err=True)
    for note in made.notes:
        echo(f"note: {note}", err=True)
    return made.forms.model if isinstance(model, Model) else model, dict(case.inputs)

"""``caffe2-bridge run``."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from typing import Any

import click

from caffe2_backend.npz import write_npz
from caffe2_bridge import Model
from caffe2_bridge.storage import AnyPath
from caffe2_cli import options
from caffe2_cli.command import Outcome, command
from caffe2_cli.exit_codes import YES
from caffe2_cli.model_source import NO_RANDOM_WEIGHTS, ModelSource
from caffe2_cli.output.arrays import read_arrays, require_arrays
from caffe2_cli.output.console import progress
from caffe2_cli.output.echo import message, name_of, say
from caffe2_cli.plugins import plugin
from caffe2_cli.settings import is_given


@command(
    example="caffe2-bridge run models/char_rnn --random-inputs -o outputs.npz", schema=1,
    codes={YES: "MODEL ran."},
)  # fmt: skip
@options.model
@click.option("--inputs", "source", type=options.LOCATION, help="An .npz file with an array for each input.")
@click.option("--random-inputs", is_flag=True, help="Synthesize the inputs, as validate does.")
@options.inputs
@options.random_weights
@options.seed
@options.out("target", "The .npz file to write", former="--outputs", file=True)
@options.outputs
@options.device
@plugin
def run(
    model: ModelSource,
    source: AnyPath | None,
    random_inputs: bool,
    inputs: dict[str, Any],
    random_weights: bool,
    seed: int,
    target: AnyPath | None,
    outputs: tuple[str, ...],
    device: str | None,
) -> Outcome:
    """Run MODEL once on onnxruntime."""
    from caffe2_backend.runtime import Int8Tensor, Predictor, SessionOptions

    if random_inputs and source:
        raise click.UsageError("--inputs and --random-inputs do not go together")
    if (inputs or random_weights or is_given("seed")) and not random_inputs:
        raise click.UsageError(
            "--input, --seed and --random-weights are for inputs that are synthesized: add --random-inputs"
        )
    if random_weights and model.is_onnx:
        raise click.UsageError(NO_RANDOM_WEIGHTS)
    arrays = read_arrays(source) if source else {}
    start = time.perf_counter()
    with progress("running"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loaded: Any = model.read()
        if random_inputs:
            chosen = {"described": inputs, "outputs": outputs or None, "seed": seed, "random_weights": random_weights}
            loaded, arrays = _synthesized(loaded, chosen)
        once = SessionOptions(loops=False)  # it would take longer to load numba than to run without it
        predictor = Predictor(loaded, device, options=once, outputs=outputs or None)
        found = predictor.run(arrays)
    for line in predictor.placement.describe().splitlines() if predictor.placement else ():
        message("note", line)
    for warning in caught:
        message("warning", warning.message)
    results = {name: value.data if isinstance(value, Int8Tensor) else value for name, value in found.items()}
    require_arrays(results)
    if target is not None:
        write_npz(target, results)
    for name, array in results.items():
        say(f"{name}: {array.dtype}{list(array.shape)}")
    outputs_data = [{"name": n, "dtype": str(a.dtype), "shape": list(a.shape)} for n, a in results.items()]
    path = None if target is None else name_of(target)
    return Outcome({"path": path, "outputs": outputs_data, "seconds": round(time.perf_counter() - start, 3)})


def _synthesized(model: Any, chosen: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the model, with the weights that it lacked, and inputs that fit it; print what was synthesized."""
    from caffe2_cli.output.synthesized import print_synthesized
    from caffe2_validation.api import synthesize
    from caffe2_validation.options import ValidationOptions
    from caffe2_validation.sizes import SIZES

    made = synthesize(model, ValidationOptions(sizes=SIZES[:1], **chosen))
    print_synthesized(made, chosen["seed"])
    return made.forms.model if isinstance(model, Model) else model, dict(made.cases[0].inputs)

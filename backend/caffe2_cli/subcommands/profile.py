"""``caffe2-bridge profile``."""

from __future__ import annotations

import json
from typing import Any

import click

from caffe2_bridge import Model
from caffe2_bridge.files.saver import replace_file
from caffe2_bridge.storage import AnyPath, published
from caffe2_cli import options
from caffe2_cli.command import Outcome, command
from caffe2_cli.exit_codes import YES
from caffe2_cli.model_source import ModelSource
from caffe2_cli.output.arrays import read_arrays
from caffe2_cli.output.console import progress
from caffe2_cli.output.echo import echo
from caffe2_cli.plugins import plugin

_SLOWEST = 5


@command(
    example="caffe2-bridge profile models/char_rnn -o times.json", schema=1, codes={YES: "The operators are measured."}
)
@options.model
@options.given_inputs
@options.inputs
@options.seed
@options.out("target", "The JSON file to write", file=True, required=True)
@options.runtime_device
@click.option("--runs", type=click.IntRange(min=1), default=10, show_default=True, help="Measured runs of an operator.")
@plugin
def profile(
    model: ModelSource, source: AnyPath | None, inputs: dict[str, Any], seed: int, target: AnyPath, device: str | None,
    runs: int,
) -> Outcome:  # fmt: skip
    """Measure how long each operator of MODEL takes on onnxruntime.

    The file has the operators' types, shapes and times; caffe2_bridge.ProfiledCosts reads it for placements.
    """
    from caffe2_backend.runtime.calls.profiling import profile_model
    from caffe2_cli.output.synthesized import print_synthesized
    from caffe2_validation.forms import Forms
    from caffe2_validation.inputs.generate import generate
    from caffe2_validation.options import ValidationOptions

    with progress("measuring"):
        loaded = model.load()
        given = read_arrays(source) if source else None
        options = ValidationOptions(described=inputs, random_weights=True, seed=seed)
        made = generate(Forms(loaded, inputs, given), given, options)
        net = made.forms.model if isinstance(made.forms.model, Model) else loaded
        print_synthesized(made, seed, inputs=given is None)
        measured = profile_model(net, made.cases[0].inputs, device=device, runs=runs)
    with published(target) as path:
        replace_file(path, f"{measured.to_json()}\n".encode())
    slowest = sorted(measured.operators, key=lambda operator: -min(operator.seconds))[:_SLOWEST]
    for operator in slowest:
        milliseconds = 1000 * sorted(operator.seconds)[len(operator.seconds) // 2]
        echo(f"[{operator.index}] {operator.type}: {milliseconds:.3g} ms")
    echo(f"{len(measured.operators)} operators measured on {measured.device}")
    return Outcome(json.loads(measured.to_json()))

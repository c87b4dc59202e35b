"""``caffe2-bridge profile``."""

from __future__ import annotations

from typing import Any

import click

from caffe2_bridge import Model, load
from caffe2_bridge.files.saver import replace_file
from caffe2_bridge.storage import AnyPath, published
from caffe2_cli import options
from caffe2_cli.errors import reports_errors
from caffe2_cli.output.arrays import read_arrays
from caffe2_cli.output.console import progress
from caffe2_cli.output.echo import echo

_SLOWEST = 5


@click.command()
@options.model
@options.init
@options.databases
@click.option("--inputs", "source", type=options.LOCATION, help="An .npz file; without it inputs are synthesized.")
@options.inputs
@click.option("-o", "--output", "target", required=True, type=options.LOCATION, help="The JSON file to write.")
@options.runtime_device
@click.option("--runs", type=click.IntRange(min=1), default=10, show_default=True, help="Measured runs of an operator.")
@reports_errors()
def profile(
    model: AnyPath,
    init: AnyPath | None,
    databases: AnyPath | None,
    source: AnyPath | None,
    inputs: dict[str, Any],
    target: AnyPath,
    device: str | None,
    runs: int,
) -> None:
    """Measure how long each operator of MODEL takes on onnxruntime.

    The file has the operators' types, shapes and times; caffe2_bridge.ProfiledCosts reads it for placements.
    """
    from caffe2_backend.runtime.calls.profiling import profile_model
    from caffe2_validation.forms import Forms
    from caffe2_validation.inputs.generate import generate
    from caffe2_validation.options import ValidationOptions

    with progress("measuring"):
        loaded = load(model, init, databases=databases)
        given = read_arrays(source) if source else None
        made = generate(Forms(loaded, inputs, given), given, ValidationOptions(described=inputs, random_weights=True))
        net = made.forms.model if isinstance(made.forms.model, Model) else loaded
        measured = profile_model(net, made.cases[0].inputs, device=device, runs=runs)
    with published(target) as path:
        replace_file(path, f"{measured.to_json()}\n".encode())
    slowest = sorted(measured.operators, key=lambda operator: -min(operator.seconds))[:_SLOWEST]
    for operator in slowest:
        milliseconds = 1000 * sorted(operator.seconds)[len(operator.seconds) // 2]
        echo(f"[{operator.index}] {operator.type}: {milliseconds:.3g} ms")
    echo(f"{len(measured.operators)} operators measured on {measured.device}")

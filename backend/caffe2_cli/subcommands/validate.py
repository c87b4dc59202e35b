"""``caffe2-bridge validate``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.files.detect import is_onnx_file
from caffe2_bridge.storage import AnyPath
from caffe2_cli import options
from caffe2_cli.command import Outcome, command
from caffe2_cli.exit_codes import NO, YES
from caffe2_cli.model_source import NO_RANDOM_WEIGHTS, ModelSource
from caffe2_cli.output.arrays import read_arrays
from caffe2_cli.output.command_line import command_line
from caffe2_cli.output.console import stages
from caffe2_cli.output.echo import message
from caffe2_cli.output.validation_tables import print_circumstances, print_report
from caffe2_cli.plugins import plugin
from caffe2_cli.settings import is_given


@command(
    example="caffe2-bridge validate models/char_rnn --report report.html", schema=1,
    codes={YES: "They agree.", NO: "They disagree."},
)  # fmt: skip
@options.model
@click.option("--other", type=options.LOCATION, help="A second model to compare MODEL with.")
@options.runtimes
@options.runtime_device
@click.option(
    "--inputs",
    "source",
    type=options.LOCATION,
    help="An .npz file; without it inputs are synthesized. Arrays named STEP/INPUT are those of training steps.",
)
@options.inputs
@options.outputs
@click.option("--every-blob", is_flag=True, help="Compare intermediate blobs, too.")
@click.option(
    "--matrix", is_flag=True, help="Compare every pair of runtimes; without --against, all that are installed."
)
@options.random_weights
@click.option(
    "--steps", type=click.IntRange(min=1), default=3, show_default=True, help="Steps of a training net to compare."
)
@click.option("--lockstep", is_flag=True, help="Find the first operator, and the step, that do not agree.")
@click.option("--find-nan", is_flag=True, help="Find the first NaN or infinity, and the operator that writes it.")
@click.option("--repro", type=options.FOLDER, help="Write that operator with its inputs to this folder.")
@click.option("--report", type=options.OUTPUT, help="Write the report to this file, as a page of HTML.")
@options.seed
@options.tolerances
@options.target
@options.recurrent
@click.option("--caffe2-python", metavar="PATH", help="The Python that has real Caffe2.")
@plugin
def validate(
    model: ModelSource, other: AnyPath | None, runtimes: tuple[str, ...], source: AnyPath | None,
    inputs: dict[str, Any], outputs: tuple[str, ...], every_blob: bool, matrix: bool, lockstep: bool,
    repro: AnyPath | None, report: AnyPath | None, caffe2_python: str | None, for_runtime: str, **choices: Any,
) -> Outcome:  # fmt: skip
    """Compare what runtimes compute for MODEL, and find where they disagree."""
    from caffe2_validation.api import run_validation
    from caffe2_validation.forms import read_model
    from caffe2_validation.options import ValidationOptions

    if caffe2_python is not None and runtimes and "caffe2" not in runtimes:
        raise click.UsageError("--caffe2-python is for the runtime caffe2, which --against does not name")
    validation = ValidationOptions(
        runtimes=runtimes or None, every_runtime=matrix, described=inputs, outputs=outputs or None,
        every_blob=every_blob or report is not None, matrix=matrix, lockstep=lockstep or repro is not None,
        repro=repro, caffe2_python=caffe2_python, target=for_runtime, **choices,
    )  # fmt: skip
    _require_effect(model, other, runtimes, validation)
    with stages() as show:
        show("loading")
        read = read_model(model.read())
        result = run_validation(read, read_arrays(source) if source else None, other, validation, show)
    result = replace(result, command=command_line())
    if report is not None:
        from caffe2_validation.render.page import write_page

        write_page(result, report, _picture(model.path if model.is_onnx else read, result, inputs))
    if is_given("steps") and not any(name.startswith("step ") for name in result.cases):
        message("note", "--steps has no effect: no step of a training net is compared")
    print_report(result)
    print_circumstances(result)
    return Outcome(result.to_dict(), result.exit_code)


def _require_effect(model: ModelSource, other: AnyPath | None, runtimes: tuple[str, ...], chosen: Any) -> None:
    """Refuse options that none of the runtimes uses."""
    from caffe2_backend.runtime.devices.device_names import CPU
    from caffe2_validation.runtimes import ON_DEVICE, RUNTIMES

    if chosen.random_weights and model.is_onnx and (other is None or is_onnx_file(other)):
        raise click.UsageError(NO_RANDOM_WEIGHTS)
    forms = {RUNTIMES[name]().form for name in runtimes if name in RUNTIMES}
    if other is None and (model.is_onnx or forms == {"caffe2"}):
        for name, option in (("recurrent", "--recurrent"), ("for_runtime", "--for")):
            if is_given(name):
                raise click.UsageError(f"{option} is for the export of MODEL, and none is run")
    if chosen.device not in (None, CPU) and runtimes and not set(runtimes) & ON_DEVICE.keys():
        raise click.UsageError(f"--device is for {' and '.join(ON_DEVICE)}, which --against does not name")


def _picture(model: Any, result: Any, inputs: dict[str, Any]) -> str:
    from caffe2_validation.render.picture import error_picture

    try:
        return error_picture(model, result, inputs=inputs)
    except BridgeError as error:  # of a file that cannot be read there is no picture
        message("note", f"the page has no picture of the net: {error}")
        return ""

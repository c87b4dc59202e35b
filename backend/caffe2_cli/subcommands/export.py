"""``caffe2-bridge export``."""

from __future__ import annotations

import sys
import time
from typing import Any, Final

import click

from caffe2_bridge import Model
from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.storage import AnyPath
from caffe2_cli import options
from caffe2_cli.command import Outcome, command
from caffe2_cli.exit_codes import NO, YES
from caffe2_cli.model_source import ModelSource
from caffe2_cli.output.console import progress
from caffe2_cli.output.echo import echo, message, name_of, say, say_files
from caffe2_cli.plugins import plugin
from caffe2_cli.settings import is_given
from caffe2_cli.streams import OutputType, require_one_file

_NOT_FUSED: Final = ("scan", "loop", "unrolled")
# What --to torch takes.
_OF_TORCH: Final = ("form", "model", "init", "databases", "predictor", "inputs", "target", "outputs")


@command(
    example="caffe2-bridge export models/char_rnn -o char_rnn.onnx", schema=1, findings=NO,
    codes={YES: "MODEL is exported.", NO: "It does not convert, or --verify or --certify found a difference."},
)  # fmt: skip
@options.model
@options.inputs
@click.option(
    "--to", "form", type=click.Choice(["onnx", "torch"]), default="onnx", show_default=True,
    help="ONNX; or a folder with PyTorch source (model.py), its weights (model.safetensors), and check.py.",
)  # fmt: skip
@options.out(
    "target",
    "The .onnx file to write; with --to torch, the folder",
    former="--output-file",
    file=True,
    required=True,
    type=OutputType(".onnx"),
)
@options.outputs
@click.option("--opset", type=int, help="The ONNX opset of the result; default the target's, 20 for onnxruntime.")
@options.target
@options.recurrent
@click.option(
    "--full-lengths", is_flag=True,
    help="Promise that all rows have as many steps as their sequence. Lengths are not inputs of the model.",
)  # fmt: skip
@options.recompute
@click.option(
    "--stateful", is_flag=True,
    help="Make the initial states of recurrent nets inputs, and their last rows outputs.",
)  # fmt: skip
@click.option("--reroll", is_flag=True, help="Convert nets that were unrolled over time back to loops.")
@click.option(
    "--certify", is_flag=True,
    help="Run fused recurrent operators against their step nets first; exit 1 if they are not equal.",
)  # fmt: skip
@click.option(
    "--int8", type=click.Choice(["exact", "qdq"]), default="exact", show_default=True,
    help="The form of Int8 operators. Integer arithmetic equal to Caffe2's, or QuantizeLinear and DequantizeLinear "
    "around float operators, which runtimes fuse.",
)  # fmt: skip
@click.option(
    "--fp16", is_flag=True,
    help="Convert float32 values to float16. The largest difference on generated inputs is printed.",
)  # fmt: skip
@click.option(
    "--fp16-io", type=click.Choice(["float16", "float32"]), default="float16", show_default=True,
    help="With --fp16, the type of the inputs and outputs that are float32.",
)  # fmt: skip
@click.option(
    "--training/--no-training", default=None,
    help="Make the blobs that a training net updates inputs and outputs. By default if the net computes gradients.",
)  # fmt: skip
@click.option(
    "--fold-batchnorm/--no-fold-batchnorm", default=True, show_default=True,
    help="Make SpatialBN and AffineChannel of an inference net part of the convolution before them.",
)  # fmt: skip
@click.option(
    "--no-weights", is_flag=True,
    help="Export weights that have no value as inputs of the model; without it they are an error.",
)  # fmt: skip
@click.option(
    "--external-data", type=click.IntRange(min=0), is_flag=False, flag_value=1024, metavar="[BYTES]",
    help="Write tensors of more than BYTES (1024) to OUTPUT-FILE.data.",
)  # fmt: skip
@options.verify
@plugin
def export(
    model: ModelSource, target: AnyPath, certify: bool, outputs: tuple[str, ...], no_weights: bool,
    external_data: int | None, form: str, for_runtime: str, verify: bool, **choices: Any,
) -> Outcome:  # fmt: skip
    """Convert MODEL to ONNX. Weights above 2 GB go to a file in the same folder.

    With --to torch, convert MODEL to the source of a PyTorch module, which imports PyTorch alone.
    """
    start = time.perf_counter()
    if form == "torch":
        _require_options_of_torch()
        return _export_torch(model.load(), target, choices["inputs"], outputs)
    _require_effect(choices, certify=certify, verify=verify)
    from caffe2_cli.exported import ExportedModel
    from caffe2_frontend import ExportOptions, convert, save_onnx

    loaded = model.load()
    if certify:
        _certify(loaded)
    _say_without_effect(loaded, choices)
    with progress("exporting"):
        chosen = ExportOptions(outputs=outputs or None, require_weights=not no_weights, target=for_runtime, **choices)
        converted = convert(loaded, options=chosen)
        written = save_onnx(converted, target, external_data=external_data)
    require_one_file()
    seconds = time.perf_counter() - start
    described = ExportedModel.of(converted)
    say_files(written)
    for line in described.lines():
        say(line)
    say(f"exported in {seconds:.1f} s")
    if chosen.fp16 or chosen.int8 != "exact":
        _measure(loaded, chosen, converted, target)
    files = [name_of(path) for path in written]
    data = {"files": files, **described.to_dict(), "seconds": round(seconds, 3)}
    return _verified(loaded, target, chosen, data) if verify else Outcome(data)


def _verified(model: Model, target: AnyPath, chosen: Any, data: dict[str, Any]) -> Outcome:
    from caffe2_cli.verification import verify

    report = verify(model, target, described=chosen.inputs, outputs=chosen.outputs)
    return Outcome({**data, "verdict": report.verdict}, report.exit_code)


def _require_effect(choices: dict[str, Any], *, certify: bool, verify: bool) -> None:
    """Refuse options that others take the effect from."""
    if is_given("fp16_io") and not choices["fp16"]:
        raise click.UsageError("--fp16-io is for --fp16")
    if certify and choices["recurrent"] in _NOT_FUSED:
        raise click.UsageError(
            f"--certify is for fused operators, which --recurrent {choices['recurrent']} has none of"
        )
    if not verify:
        return
    if choices["fp16"] or choices["int8"] != "exact":
        raise click.UsageError(
            "--verify has the tolerances of the exact export: without it, --fp16 and --int8 qdq print how far the "
            "results are from those"
        )
    if choices["full_lengths"]:
        raise click.UsageError("--verify gives rows of different lengths, which --full-lengths promises not to give")


def _say_without_effect(model: Model, choices: dict[str, Any]) -> None:
    """Note the options that find nothing in the net."""
    from caffe2_bridge.control.bodies import all_operators
    from caffe2_bridge.gradients import recompute_steps
    from caffe2_bridge.gradients.forward_steps import insert_forward_operators
    from caffe2_bridge.netdef.views import NetView
    from caffe2_bridge.operators.sequence import OVER_SEQUENCES
    from caffe2_bridge.reroll import reroll

    if choices["reroll"] and reroll(model) is model:
        message("note", "--reroll has no effect: the net has no loop that was unrolled")
    if choices["recompute"] == "steps":
        net = insert_forward_operators(model).predict_net
        if recompute_steps(net) == net:
            message("note", "--recompute has no effect: no gradient of a recurrent net can compute its steps again")
    if choices["full_lengths"] and not any(
        op.type in OVER_SEQUENCES for op in all_operators(NetView(model.predict_net))
    ):
        message("note", "--full-lengths has no effect: no operator of the net reads lengths of sequences")


def _require_options_of_torch() -> None:
    """Refuse options that were given, and that only ONNX has."""
    context = click.get_current_context()
    for parameter in context.command.params:
        if is_given(parameter.name or "") and parameter.expose_value and parameter.name not in _OF_TORCH:
            raise click.UsageError(f"{parameter.opts[0]} is an option of ONNX, and does not go with --to torch")


def _export_torch(model: Model, folder: AnyPath, described: Any, outputs: tuple[str, ...]) -> Outcome:
    """Write the source, and what to_torch computes for synthesized inputs."""
    from caffe2_bridge.files.optional_packages import required

    required("torch", "--to torch", extra="torch")
    from caffe2_torch import export_torch
    from caffe2_validation.api import synthesize
    from caffe2_validation.options import ValidationOptions
    from caffe2_validation.sizes import SIZES

    with progress("exporting"):
        made = synthesize(model, ValidationOptions(sizes=SIZES[:1], described=described, outputs=outputs or None))
        written = export_torch(model, folder, examples=made.cases[0].inputs, outputs=outputs or None)
    for note in made.notes:
        message("note", note)
    say_files(written)
    return Outcome({"files": [str(path) for path in written]})


def _measure(model: Model, chosen: Any, converted: Any, target: AnyPath) -> None:
    """Print how far the outputs are from those of the exact export."""
    from caffe2_validation.precision import measure_precision

    try:
        with progress("comparing"):
            differences = measure_precision(model, chosen, converted, target)
    except BridgeError as error:
        message("warning", f"the results were not compared with those of the exact export: {error}")
        return
    for difference in differences:
        echo(str(difference))


def _certify(model: Model) -> None:
    from caffe2_validation.certify import certify

    with progress("certifying"):
        certificates = certify(model)
    if not certificates:
        message("note", "nothing to certify: the net has no recurrent operator")
    for certificate in certificates:
        echo(str(certificate))
    if not all(certificate.agrees for certificate in certificates):
        message("error", "a fused operator does not compute what the net computes; nothing was exported")
        sys.exit(NO)

"""``caffe2-bridge train``."""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import Any, Final

import click

from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.storage import AnyPath
from caffe2_cli import options
from caffe2_cli.command import Outcome, command
from caffe2_cli.exit_codes import INTERRUPTED, YES
from caffe2_cli.model_source import ModelSource
from caffe2_cli.output.arrays import read_arrays
from caffe2_cli.output.command_line import command_line, typed_path
from caffe2_cli.output.console import steps_shown
from caffe2_cli.output.echo import echo, message, say, say_files
from caffe2_cli.plugins import plugin
from caffe2_cli.settings import is_given

_POSITIVE: Final = click.IntRange(min=1)


@command(
    example="caffe2-bridge train models/lstm_train --inputs batches.npz --steps 100 -o trained", schema=1,
    codes={YES: "The model is trained."},
)  # fmt: skip
@options.model
@click.option(
    "--inputs", "source", type=options.LOCATION, required=True,
    help="An .npz file with an array for each input, which --batch-size cuts along the leading dim; or with arrays "
    "named STEP/INPUT, each the input of a step.",
)  # fmt: skip
@click.option("--steps", type=_POSITIVE, required=True, help="The number of steps; with --resume, those before count.")
@click.option("--batch-size", type=_POSITIVE, help="Rows of a batch; default: all.")
@click.option("--loss", metavar="NAME", help="The loss; default: the blob that the gradients start from.")
@options.out("target", "The folder to write", former="--output-folder", required=True)
@click.option("--checkpoint-every", type=_POSITIVE, default=100, show_default=True, metavar="STEPS",
              help="Write a checkpoint after so many steps.")  # fmt: skip
@click.option("--resume", type=options.LOCATION, metavar="FOLDER", help="Continue from the checkpoint in this folder.")
@click.option(
    "--seed", type=options.SEED, default=0, show_default=True, help="Seed of the random fills of the init net."
)
@options.recompute
@options.device
@plugin
def train(
    model: ModelSource, source: AnyPath, steps: int, batch_size: int | None, loss: str | None, target: AnyPath,
    checkpoint_every: int, resume: AnyPath | None, seed: int, recompute: str, device: str | None,
) -> Outcome:  # fmt: skip
    """Train MODEL, a Caffe2 training net or its export, on onnxruntime.

    Writes the trained nets, their export, a checkpoint and the loss curve to the output folder. Ctrl-C ends the run
    after a step, with a checkpoint; the exit code is then 130.
    """
    from caffe2_backend.training.batches import make_batches
    from caffe2_backend.training.checkpoint import read_checkpoint
    from caffe2_backend.training.interrupt import interruptible
    from caffe2_backend.training.loop import Schedule
    from caffe2_backend.training.loop import train as run_training

    start = None if resume is None else read_checkpoint(resume)
    arrays = read_arrays(source)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer = _trainer(model, device, seed, loss, recompute)
    for warning in caught:
        message("warning", warning.message)
    batches = make_batches(arrays, trainer.inputs, batch_size, trainer.input_types(), trainer.optional)
    target.mkdir(parents=True, exist_ok=True)
    schedule = Schedule(steps, checkpoint_every, target, loss)
    with steps_shown(steps, start.steps if start else 0) as show, interruptible() as stopped:
        final = run_training(trainer, batches, schedule, start=start, observe=show, stopped=stopped)
    _report(final, target, str(model.path))
    written = _write(trainer, target, batches)
    say_files(written)
    data = {"loss": final.loss, "losses": list(final.losses), "steps": final.steps, "files": list(map(str, written))}
    if final.steps < steps:
        echo(f"interrupted after step {final.steps}; --resume {typed_path(target)} continues", err=True)
        return Outcome(data, INTERRUPTED)
    return Outcome(data)


def _trainer(model: ModelSource, device: str | None, seed: int, loss: str | None, recompute: str) -> Any:
    from caffe2_backend.training.net_trainer import NetTrainer
    from caffe2_backend.training.onnx_trainer import OnnxTrainer
    from caffe2_bridge.gradients import recompute_steps

    read: Any = model.read()
    if model.is_onnx:
        if recompute != "none":
            raise click.UsageError("--recompute is for nets; give it to the export of the model: export --recompute")
        if is_given("seed"):
            raise click.UsageError("--seed is for the random fills of an init net, which an ONNX model has none of")
        return OnnxTrainer(read, device)
    if recompute == "steps":
        read = dataclasses.replace(read, predict_net=recompute_steps(read.predict_net))
    return NetTrainer(read, device, seed=seed, loss=loss)


def _report(final: Any, target: AnyPath, model: str) -> None:
    """Print the losses in short, and write the page."""
    from caffe2_cli.output.loss_page import sparkline, write_loss_page

    write_loss_page(target / "loss.html", final, model, command_line())
    echo(f"{final.loss}: {final.losses[0]:.6g} to {final.losses[-1]:.6g} in {final.steps} steps")
    say(sparkline(final.losses))
    wrong = next((i for i, value in enumerate(final.losses) if not math.isfinite(value)), None)
    if wrong is not None:
        message("warning", f"{final.loss} is {final.losses[wrong]} at step {wrong + 1}")


def _write(trainer: Any, target: AnyPath, batches: Any) -> list[AnyPath]:
    """Write the trained model; a net that trains and does not export as a whole keeps its nets and its checkpoint."""
    try:
        return list(trainer.write(target, batches.batch(0), open_dims=batches.open_dims))
    except BridgeError as error:
        message("warning", f"the trained model is not exported: {error}")
        return [path for path in (target / "init_net.pb", target / "predict_net.pb") if path.exists()]

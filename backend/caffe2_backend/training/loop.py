"""The loop of a training run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from caffe2_backend.training.batches import Batches
from caffe2_backend.training.checkpoint import Checkpoint, write_checkpoint
from caffe2_backend.training.trainer import Trainer, choose_loss
from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.storage import AnyPath

# Called after each step with the number of steps so far and the loss.
Observer = Callable[[int, float], None]


@dataclass(frozen=True)
class Schedule:
    """How long to train.

    Attributes:
        steps: the number of steps, with those before a checkpoint that the run continues.
        checkpoint_every: steps between checkpoints.
        folder: where checkpoints are written; None for none.
        loss: the name of the loss; None finds it.
    """

    steps: int
    checkpoint_every: int
    folder: AnyPath | None
    loss: str | None = None


def train(
    trainer: Trainer,
    batches: Batches,
    schedule: Schedule,
    *,
    start: Checkpoint | None = None,
    observe: Observer = lambda _step, _loss: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Checkpoint:
    """Train until ``schedule.steps``, or until ``stopped`` returns true; the last state is written as a checkpoint.

    Args:
        trainer: the model, in its initial state.
        batches: the data; step i takes batch i.
        schedule: how long.
        start: a checkpoint to continue from.
        observe: called after each step.
        stopped: asked after each step.

    Raises:
        OptionError: the loss cannot be chosen, or ``start`` has more steps.
        NetFormatError: ``start`` is of another model.
        ConversionError, RunError: a step fails; the checkpoint of the steps before remains.
    """
    losses: list[float] = []
    name = schedule.loss
    if start is not None:
        if start.steps > schedule.steps:
            raise OptionError(
                f"the checkpoint has {start.steps} steps already: choose at least {start.steps} with --steps"
            )
        trainer.restore(start.state)
        if start.steps == schedule.steps:  # the run was ended between its last checkpoint and what the caller writes
            _write(schedule, start)
            return start
        losses, name = list(start.losses), name or start.loss
    saved = len(losses)
    loss = ""
    for step in range(len(losses), schedule.steps):
        trainer.step(batches.batch(step))
        loss = loss or choose_loss(trainer, name)
        losses.append(float(np.mean(trainer.output(loss), dtype=np.float64)))
        observe(step + 1, losses[-1])
        if schedule.folder is not None and (step + 1) % schedule.checkpoint_every == 0:
            _write(schedule, Checkpoint(trainer.state(), losses, loss))
            saved = step + 1
        if stopped():
            break
    final = Checkpoint(trainer.state(), losses, loss)
    if saved != final.steps:
        _write(schedule, final)
    return final


def _write(schedule: Schedule, checkpoint: Checkpoint) -> None:
    if schedule.folder is not None:
        write_checkpoint(schedule.folder, checkpoint)

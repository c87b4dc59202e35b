"""The public function that trains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from caffe2_backend.runtime.sessions.missing_inputs import missing_inputs, require_inputs, require_mapping
from caffe2_backend.training.checkpoint import FILE, Checkpoint, read_checkpoint
from caffe2_backend.training.loop import Schedule
from caffe2_backend.training.loop import train as run_training
from caffe2_backend.training.net_trainer import NetTrainer
from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.files.model_argument import NetLike, as_model
from caffe2_bridge.model import Model
from caffe2_bridge.storage import Location, locate


@dataclass(frozen=True)
class TrainingResult:
    """A trained model.

    Attributes:
        model: the training net as it was given, with an init net that fills what was updated with the trained values.
        losses: the loss of each step, those before a checkpoint included.
        loss: the name of the loss.
    """

    model: Model
    losses: Sequence[float] = field(repr=False)
    loss: str


def train(
    model: NetLike | Model,
    batches: Iterable[Mapping[str, Any]],
    *,
    steps: int,
    device: str | None = None,
    checkpoint: Location | None = None,
    loss: str | None = None,
    seed: int = 0,
) -> TrainingResult:
    """Train a Caffe2 training net on onnxruntime. The model and the arrays that are given stay as they are.

    Args:
        model: a loaded model, a path or URL that ``caffe2_bridge.load`` reads, or a NetDef.
        batches: the inputs of each step by name, as a Predictor takes them. After the last of a list the first one
            follows; of any other iterable each step takes one.
        steps: the number of steps, with those before a checkpoint.
        device: where the net runs, as for a Workspace.
        checkpoint: a folder. The run continues from its checkpoint if it has one, and writes one every 100 steps and
            at the end, as ``caffe2-bridge train`` does.
        loss: the blob to watch; by default that which the gradients start from.
        seed: of the random fills of the init net.

    Raises:
        NetFormatError: the model cannot be read, or the checkpoint is damaged or that of another net.
        OptionError: the net does not train, the loss cannot be chosen, ``steps`` is below 1 or that of the checkpoint,
            or there are fewer batches than steps.
        ConversionError, RunError: a step fails, or a batch lacks an input or has one that the net does not have.
        OSError: the checkpoint cannot be read or written.
    """
    if not isinstance(steps, int) or steps < 1:
        raise OptionError(f"steps must be an integer of at least 1, not {steps!r}")
    trainer = NetTrainer(as_model(model), device, seed=seed, loss=loss)
    folder = None if checkpoint is None else locate(checkpoint)
    start = read_checkpoint(folder) if folder is not None and (folder / FILE).is_file() else None
    given = _Given(batches, trainer)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    final: Checkpoint = run_training(trainer, given, Schedule(steps, 100, folder, loss), start=start)
    return TrainingResult(trainer.trained(), tuple(final.losses), final.loss)


class _Given:
    """The batches that a caller gives, each checked when its step takes it."""

    open_dims = False

    def __init__(self, batches: Iterable[Mapping[str, Any]], trainer: NetTrainer) -> None:
        if isinstance(batches, Mapping) or not isinstance(batches, Iterable):
            raise OptionError("batches must be a list of mappings from names to arrays, such as [{'data': array}], not "
                              f"{type(batches).__name__}")  # fmt: skip
        self._listed: Sequence[Mapping[str, Any]] | None = batches if isinstance(batches, Sequence) else None
        self._rest: Iterator[Mapping[str, Any]] = iter(batches)
        self._taken = 0
        self._trainer = trainer

    def __len__(self) -> int:
        """Return how many batches are known: those of a list, or those that were taken."""
        return self._taken if self._listed is None else len(self._listed)

    def batch(self, step: int) -> dict[str, Any]:
        """Return the inputs of a step. Raises OptionError if there are none left, RunError if they do not fit."""
        batch, trainer = self._next(step), self._trainer
        require_mapping(batch, trainer.inputs, trainer.input_types)
        require_inputs(batch, trainer.inputs, trainer.optional)
        missing = [name for name in trainer.inputs if batch.get(name) is None]
        if missing:  # else the step would read the values of the one before
            raise missing_inputs(missing, trainer.input_types())
        return dict(batch)

    def _next(self, step: int) -> Mapping[str, Any]:
        if self._listed:
            return self._listed[step % len(self._listed)]
        for batch in self._rest:
            self._taken += 1
            if self._taken > step:
                return batch
        raise OptionError(f"there are {self._taken} batches, and step {step + 1} needs another one")

"""The interface of trainers: something that trains step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from caffe2_backend.runtime.values import Array
from caffe2_bridge.diagnostics import NetFormatError, OptionError
from caffe2_bridge.storage import AnyPath


class Trainer(Protocol):
    """A training net or model with its parameters.

    Attributes:
        inputs: the names of the data of a step.
        optional: other names that the data may have: they replace defaults or parameters that a step does not update.
        losses: the outputs that gradients start from; empty if they are not known.
        candidates: the outputs among which a loss may be.
    """

    inputs: tuple[str, ...]
    optional: frozenset[str]
    losses: tuple[str, ...]
    candidates: tuple[str, ...]

    def input_types(self) -> Mapping[str, str]:
        """Return what is known of the inputs, as text."""
        ...

    def step(self, batch: Mapping[str, Array]) -> None:
        """Train one step. Raises RunError or ConversionError if that fails; the parameters are then unchanged."""
        ...

    def output(self, name: str) -> Array:
        """Return an output of the latest step. Raises RunError if it is not a tensor."""
        ...

    def state(self) -> dict[str, Array]:
        """Return copies of what the steps update, by name."""
        ...

    def restore(self, state: Mapping[str, Array]) -> None:
        """Continue from what :meth:`state` returned."""
        ...

    def write(self, folder: AnyPath, batch: Mapping[str, Array], *, open_dims: bool) -> list[AnyPath]:
        """Write the trained model to a folder.

        Args:
            folder: where to.
            batch: data of a step.
            open_dims: whether only the leading dim of the data differs from batch to batch.

        Returns the files written. Raises BridgeError, OSError.
        """
        ...


def choose_loss(trainer: Trainer, asked: str | None) -> str:
    """Return the name of the loss after a step: the one asked for, that which gradients start from, or the only scalar.

    Raises OptionError if the trainer does not have the output that is asked for, or there are several candidates.
    """
    known = dict.fromkeys((*trainer.losses, *trainer.candidates))
    if asked is not None:
        if asked not in known:
            raise OptionError(f"loss {asked!r} is not an output of the training step: {_listed(known)}")
        return asked
    scalars = list(trainer.losses) or [name for name in known if _is_float_scalar(trainer.output(name))]
    if len(scalars) == 1:
        return scalars[0]
    if not scalars:
        raise OptionError(f"no output of the training step is a loss: choose it with --loss NAME ({_listed(known)})")
    raise OptionError(f"the training step has several losses: choose one with --loss NAME ({_listed(scalars)})")


def require_same_state(given: Mapping[str, Array], own: Mapping[str, Array]) -> None:
    """Raise NetFormatError if a state does not have the names, types and shapes of another one."""
    for name in [*own, *(name for name in given if name not in own)]:
        if name not in given:
            raise NetFormatError(f"the checkpoint does not have {name!r}, which the model updates")
        if name not in own:
            raise NetFormatError(f"the checkpoint has {name!r}, which the model does not update")
        one, other = given[name], own[name]
        if one.shape != other.shape or one.dtype != other.dtype:
            raise NetFormatError(f"{name!r} is {_kind(one)} in the checkpoint and {_kind(other)} in the model")


def _is_float_scalar(value: Array) -> bool:
    return value.size == 1 and np.issubdtype(value.dtype, np.floating)


def _kind(value: Array) -> str:
    return f"{value.dtype}{list(value.shape)}"


def _listed(names: Mapping[str, None] | Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "it has none"

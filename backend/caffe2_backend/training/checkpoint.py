"""Checkpoints: one .npz file with what a training run has updated, and its losses so far."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from caffe2_backend.npz import write_npz
from caffe2_backend.runtime.values import Array
from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.files.npz import read_npz
from caffe2_bridge.storage import AnyPath

FILE: Final = "checkpoint.npz"
_STATE: Final = "state/"
_LOSSES: Final = "losses"
_ABOUT: Final = "about"


@dataclass(frozen=True)
class Checkpoint:
    """The state after some steps.

    Attributes:
        state: values by blob.
        losses: the loss of each step so far.
        loss: the name of the loss.
    """

    state: dict[str, Array] = field(repr=False)
    losses: Sequence[float]
    loss: str

    @property
    def steps(self) -> int:
        """How many steps were trained."""
        return len(self.losses)


def write_checkpoint(folder: AnyPath, checkpoint: Checkpoint) -> AnyPath:
    """Write a checkpoint to a folder; the one before is replaced when the new one is complete. Raises OSError."""
    target = folder / FILE
    about = json.dumps({"loss": checkpoint.loss, "steps": checkpoint.steps})
    arrays = {_STATE + name: value for name, value in checkpoint.state.items()}
    arrays |= {_LOSSES: np.asarray(checkpoint.losses, np.float64), _ABOUT: np.frombuffer(about.encode(), np.uint8)}
    write_npz(target, arrays)
    return target


def read_checkpoint(folder: AnyPath) -> Checkpoint:
    """Read the checkpoint of a folder. Raises NetFormatError if there is none or it is damaged, OSError."""
    path = folder / FILE
    if not path.is_file():
        raise NetFormatError("the folder has no checkpoint (checkpoint.npz)", str(folder))
    try:
        arrays = read_npz(path)
        about = json.loads(arrays.pop(_ABOUT).tobytes())
        losses = arrays.pop(_LOSSES).astype(np.float64).tolist()
        state = {name.removeprefix(_STATE): value for name, value in arrays.items() if name.startswith(_STATE)}
        return Checkpoint(state, losses, str(about["loss"]))
    except NetFormatError as error:
        raise NetFormatError(f"not a checkpoint: {error.reason}", str(path)) from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise NetFormatError(f"not a checkpoint: {error}", str(path)) from None

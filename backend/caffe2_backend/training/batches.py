"""Batches of training data, from arrays by name."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from caffe2_backend.runtime.sessions.missing_inputs import missing_inputs, require_inputs
from caffe2_backend.runtime.values import Array
from caffe2_bridge.diagnostics import OptionError, RunError

_STEP_KEY: Final = re.compile(r"(\d+)/(.+)")


class Batches(Protocol):
    """The data of each step; after the last batch the first one follows."""

    @property
    def open_dims(self) -> bool:
        """Whether only the leading dim of each array may differ from batch to batch."""
        ...

    def __len__(self) -> int:
        """Return how many batches there are."""
        ...

    def batch(self, step: int) -> dict[str, Array]:
        """Return the arrays of a step, counted from 0."""
        ...


@dataclass(frozen=True)
class RowBatches:
    """Batches of ``size`` consecutive rows of arrays with one leading dim; rows that fill no batch are left out."""

    arrays: Mapping[str, Array]
    size: int
    rows: int
    open_dims: bool = True

    def __len__(self) -> int:
        """Return how many batches there are."""
        return self.rows // self.size

    def batch(self, step: int) -> dict[str, Array]:
        """Return the rows of a step."""
        start = step % len(self) * self.size
        return {name: array[start : start + self.size] for name, array in self.arrays.items()}


@dataclass(frozen=True)
class StepBatches:
    """Arrays that are given for each step."""

    steps: Sequence[Mapping[str, Array]]
    open_dims: bool = False

    def __len__(self) -> int:
        """Return how many batches there are."""
        return len(self.steps)

    def batch(self, step: int) -> dict[str, Array]:
        """Return the arrays of a step."""
        return dict(self.steps[step % len(self.steps)])


def make_batches(
    arrays: Mapping[str, Array],
    inputs: Sequence[str],
    batch_size: int | None,
    types: Mapping[str, str],
    optional: Collection[str] = (),
) -> Batches:
    """Make batches.

    Args:
        arrays: an array for each input, whose leading dim is cut into batches; or arrays named ``STEP/INPUT``, each of
            which is the whole input of one step.
        inputs: the names of the inputs of a step.
        batch_size: rows of a batch; None for all.
        types: what is known of the inputs, for errors.
        optional: names of inputs that may be left out.

    Raises:
        RunError: an input is not given, a name is not one of an input, or the arrays do not fit together.
        OptionError: ``batch_size`` does not fit the data.
    """
    by_step = [_STEP_KEY.fullmatch(key) for key in arrays]
    if arrays and all(by_step) and not set(inputs) <= arrays.keys():
        if batch_size is not None:
            raise OptionError("batch size must not be given for arrays that are named STEP/INPUT: they are batches")
        keys = [(int(found[1]), found[2]) for found in by_step if found is not None]
        require_inputs(dict.fromkeys(name for _, name in keys), inputs, optional)
        return _by_step(dict(zip(keys, arrays.values(), strict=True)), inputs, types)
    require_inputs(arrays, inputs, optional)
    missing = [name for name in inputs if name not in arrays]
    if missing:
        raise missing_inputs(missing, types)
    return _by_rows(arrays, batch_size)


def _by_step(arrays: Mapping[tuple[int, str], Array], inputs: Sequence[str], types: Mapping[str, str]) -> StepBatches:
    numbers = sorted({step for step, _ in arrays})
    if numbers != list(range(len(numbers))):
        raise RunError(f"the steps of the data must be numbered from 0 without gaps, not {numbers[0]} to {numbers[-1]}")
    for step in numbers:
        missing = [name for name in inputs if (step, name) not in arrays]
        if missing:
            raise RunError(f"step {step} of the data: {missing_inputs(missing, types)}")
    steps: list[dict[str, Array]] = [{} for _ in numbers]
    for (step, name), array in arrays.items():
        steps[step][name] = array
    return StepBatches(steps)


def _by_rows(arrays: Mapping[str, Array], batch_size: int | None) -> RowBatches:
    if not arrays:  # a net that makes its own data
        return RowBatches({}, 1, 1)
    scalars = [name for name, array in arrays.items() if array.ndim == 0]
    if scalars:
        raise RunError(f"the data of {_listed(scalars)} has no leading dim of rows: name the arrays STEP/INPUT")
    rows = {array.shape[0] for array in arrays.values()}
    if len(rows) != 1:
        sizes = ", ".join(f"{name}: {array.shape[0]}" for name, array in arrays.items())
        raise RunError(f"the arrays must have one number of rows ({sizes}); arrays named STEP/INPUT are not cut")
    (count,) = rows
    size = count if batch_size is None else batch_size
    if not 0 < size <= count:
        raise OptionError(f"batch size must be from 1 to the number of rows ({count}), not {size}")
    return RowBatches(arrays, size, count)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))

"""Runs of a net without states on the blobs of its last run, or on other arrays of the same kind.

What a run of a tiny net waits for is finding out that its inputs are of a known kind. Most are the very objects of the
last run.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from caffe2_backend.runtime.blobs.results import Blobs
from caffe2_backend.runtime.program.runs.bound_runs import BoundRuns
from caffe2_backend.runtime.program.variant import Variant
from caffe2_backend.runtime.values import Tensor, Value


class RepeatedRuns:
    """The inputs of the last run of a variant, which is of any sizes of its inputs.

    Attributes:
        variant: the variant.
        given: the inputs by blob.
        feed: the arrays by input of the variant's model.
    """

    __slots__ = ("_bound", "_fixed", "_names", "_values", "feed", "given", "variant")

    def __init__(
        self,
        variant: Variant,
        names: Sequence[str],
        fixed: int,
        values: Sequence[Any],
        bound: BoundRuns | None = None,
    ) -> None:
        """``values`` are the blobs ``names``, None where one does not exist; the first ``fixed`` are constants.

        ``bound`` makes runs with bound inputs and outputs; None for new ones.
        """
        self.variant = variant
        self._names = names
        self._fixed = fixed
        self._values = values
        self.given: dict[str, Value] = {
            name: value for name, value in zip(names, values, strict=True) if value is not None
        }
        inputs = zip(variant.graph_inputs or variant.inputs, variant.inputs, strict=True)
        self.feed: dict[str, Any] = {name: self.given[blob] for name, blob in inputs}
        assert variant.session is not None
        self._bound = bound or BoundRuns(variant.session, list(self.feed), variant.graph_outputs)

    @classmethod
    def of(
        cls, variant: Variant, constants: Sequence[str], names: Sequence[str], given: Mapping[str, Value]
    ) -> RepeatedRuns | None:
        """What a run of a variant leaves; None if it has states, or not all its inputs and outputs are arrays."""
        if not variant.arrays or variant.session is None or variant.rotating or variant.resident:
            return None
        every = (*constants, *names)
        return cls(variant, every, len(constants), list(map(given.get, every)))

    def on(self, blobs: Blobs) -> RepeatedRuns | None:
        """The run on the blobs as they are now; None if a constant is another object, or an input of another kind."""
        values = list(map(blobs.get, self._names))
        if all(map(operator.is_, values, self._values)):
            return self
        for index, (value, before) in enumerate(zip(values, self._values, strict=True)):
            if value is not before and (index < self._fixed or not _is_alike(value, before)):
                return None
        return RepeatedRuns(self.variant, self._names, self._fixed, values, self._bound)

    def run(self) -> dict[str, Tensor]:
        """Run once: the outputs by blob. Raises RunError if the run fails."""
        arrays = self.feed.values()
        outputs = self._bound.run(arrays)
        if outputs is not None:
            return dict(zip(self.variant.outputs, outputs, strict=True))
        found = self.variant.run_feed(self.feed)
        self._bound.learn(arrays, found.values())
        return found


def _is_alike(value: object, before: object) -> bool:
    """Whether both are arrays of one element type and rank."""
    return (
        type(value) is np.ndarray
        and type(before) is np.ndarray
        and value.dtype is before.dtype
        and value.ndim == before.ndim
    )

"""Runs on arrays of the kind of the last run: what a call of a tiny model waits for, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from caffe2_backend.runtime.program.variant import Variant
from caffe2_backend.runtime.values import Array, Value
from caffe2_bridge.diagnostics import RunError


class ArrayRuns:
    """Runs of a variant on the host, whose inputs and outputs are all arrays of any size.

    Args:
        variant: the variant.
        given: the inputs of a run of its kind, all of them arrays.
    """

    __slots__ = ("_blobs", "_kinds", "_outputs", "_session")

    def __init__(self, variant: Variant, given: Mapping[str, Value]) -> None:
        assert variant.session is not None
        arrays = given.items()
        self._kinds = [(name, value.dtype, value.ndim) for name, value in arrays if isinstance(value, np.ndarray)]
        self._session = variant.session
        self._outputs, self._blobs = variant.graph_outputs, variant.outputs

    @classmethod
    def of(cls, variant: Variant, given: Mapping[str, Value]) -> ArrayRuns | None:
        """Runs of a variant; None if its model has other inputs than the net."""
        fits = variant.arrays and variant.session is not None and variant.graph_inputs is None
        return cls(variant, given) if fits and set(variant.inputs) == set(given) else None

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Array] | None:
        """Run once; None, and nothing has run, if the inputs are of another kind, or the run fails."""
        if len(inputs) != len(self._kinds) or type(inputs) is not dict:
            return None
        for name, dtype, rank in self._kinds:
            value = inputs.get(name)
            if type(value) is not np.ndarray or value.dtype is not dtype or value.ndim != rank:
                return None
        try:
            return dict(zip(self._blobs, self._session.run_list(inputs, self._outputs), strict=True))
        except RunError:
            return None  # the caller runs it again, for the error with the names of the net

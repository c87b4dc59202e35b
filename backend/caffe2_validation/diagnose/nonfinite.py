"""The first NaN or infinity of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from caffe2_backend.runtime.values import Array
from caffe2_validation.inputs.specs import Case
from caffe2_validation.lockstep.reference_feeder import points_of
from caffe2_validation.report import NonFinite
from caffe2_validation.sides import Side


def find_nonfinite(side: Side, case: Case) -> NonFinite | None:
    """Run a side operator by operator, and return the first value that is not finite; None if all are.

    Inputs of the model come first, weights when an operator reads them. Raises RunError if an operator cannot be run on
    its own.
    """
    for name, value in case.inputs.items():
        if not _is_finite(value):
            return NonFinite("", "", name, *_where(value), (), (), case.name, side.label)
    for point in points_of(side, case.inputs):
        if isinstance(point.value, np.ndarray) and not _is_finite(point.value):
            read = () if point.cut is None else tuple(_bad(point.cut.inputs))
            return NonFinite(
                point.place, point.op_type, point.name, *_where(point.value), point.iterations, read, case.name,
                side.label,
            )  # fmt: skip
    return None


def _bad(values: Mapping[str, Any]) -> Iterator[str]:
    return (name for name, value in values.items() if not _is_finite(value))


def _is_finite(value: Any) -> bool:
    return not isinstance(value, np.ndarray) or value.dtype.kind != "f" or bool(np.isfinite(value).all())


def _where(value: Array) -> tuple[str, tuple[int, ...], int, int]:
    """Return the kind and the index of the first element that is not finite, how many there are, and the size."""
    bad = ~np.isfinite(value)
    index = tuple(int(i) for i in np.unravel_index(int(bad.argmax()), value.shape))
    return "NaN" if np.isnan(value[index]) else "infinity", index, int(bad.sum()), value.size

"""Statistics of weights, for the panel of the picture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from caffe2_backend.picture.sketch import Type
from caffe2_bridge.diagnostics import BridgeError

_BINS: Final = 24
_SAMPLE: Final = 1 << 20  # elements that mean, deviation and histogram are computed of


def weight_data(known: Type, read: Callable[[], npt.NDArray[Any]] | None) -> dict[str, Any]:
    """Return what the panel shows of a weight: shape, dtype, and statistics of the values that ``read`` returns.

    A weight whose values cannot be read, or are not numbers, has none; ``note`` says why.
    """
    data: dict[str, Any] = {"shape": known.extent, "dtype": known.dtype}
    if read is None:
        return data | {"note": "The values are in another file."}
    try:
        values = read()
    except (BridgeError, OSError, ValueError) as error:
        return data | {"note": f"The values cannot be read: {error}"}
    if values.dtype == object:
        return data  # texts
    if values.dtype.kind not in "fiub":
        try:
            values = values.astype(np.float32)  # bfloat16 and the like
        except (TypeError, ValueError):
            return data
    stats = describe_values(values)
    sample = -(-values.size // _step(values))
    note = {"note": f"Mean, deviation and histogram are of {sample:,} elements."} if sample < values.size else {}
    return data | ({"stats": stats} if stats else {}) | note


def describe_values(values: npt.NDArray[Any]) -> dict[str, Any]:
    """Return minimum, maximum, mean, standard deviation, counts of zeros, NaN and infinities, and a histogram.

    Those but the counts are of the finite values, of which large arrays give a sample to mean, deviation and
    histogram. Empty if no value is finite.
    """
    flat = values.reshape(-1)
    counts = {"zeros": int(flat.size - np.count_nonzero(flat))}
    if flat.dtype.kind == "f":
        counts |= {"nan": int(np.isnan(flat).sum()), "infinite": int(np.isinf(flat).sum())}
        if counts["nan"] or counts["infinite"]:
            flat = flat[np.isfinite(flat)]
    if not flat.size:
        return {}
    sample = flat[:: _step(flat)].astype(np.float64)
    least, most = float(flat.min()), float(flat.max())
    bins, _ = np.histogram(sample, bins=_BINS, range=(least, most)) if most > least else (np.array([sample.size]), None)
    moments = {"least": least, "most": most, "mean": float(sample.mean()), "deviation": float(sample.std())}
    return moments | counts | {"counts": bins.tolist()}


def _step(values: npt.NDArray[Any]) -> int:
    return -(-values.size // _SAMPLE) or 1

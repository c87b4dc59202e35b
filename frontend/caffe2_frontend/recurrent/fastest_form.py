"""The form in which onnxruntime runs a recurrent cell faster, as measured.

Processor time of the fused operator over that of the Scan, one thread, T=50 steps, D=H features, x86-64,
onnxruntime 1.32, medians of 15 alternating rounds (``scripts/bench recurrent_forms``):

==== ===== ===== ===== ===== ===== =====
RNN    N=1   N=2   N=4   N=8  N=16  N=64
==== ===== ===== ===== ===== ===== =====
H=8   0.16  0.18  0.20  0.29  0.40  0.77
H=16  0.18  0.22  0.28  0.43  0.62  1.43
H=32  0.19  0.27  0.42  0.66  0.96  1.82
H=64  0.28  0.48  0.76  1.13  1.91  2.88
H=96  0.40  0.67  1.03  1.59  2.11  2.56
H=128 0.42  0.90  1.14  1.65  2.00  2.40
H=256 0.72  1.33  1.73  1.96  1.94  2.05
H=512 0.94  1.85  1.79  1.71  1.69  1.74
==== ===== ===== ===== ===== ===== =====

LSTM takes 0.13 to 0.91 and GRU 0.13 to 0.98 of the Scan's time, H=16 to H=512, N=1 to N=64: the operator is always
chosen. Where the number of rows is unknown, the geometric mean of a line decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from caffe2_bridge.cells.match import Cell, NoMatchError
from caffe2_frontend.targets.target import Recurrent, Target

# By the kind of cell: up to so many rows, the operator is faster for states of at most so many features.
_WIDEST: Final[Mapping[str, Mapping[int, int]]] = {"RNN": {1: 512, 2: 128, 4: 64, 8: 48, 16: 32, 64: 8}}
# The same for an unknown number of rows.
_WIDEST_OF_UNKNOWN: Final = {"RNN": 64}


class SlowerError(NoMatchError):
    """The fused operator computes the net, but a Scan is faster. The message says for which sizes."""


def scan_reason(kind: str, width: int, rows: int | None) -> str | None:
    """Return why a Scan is faster than the operator of a cell; None if the operator is.

    Args:
        kind: the ONNX operator.
        width: the number of features of the state.
        rows: the number of rows of the batch, None if unknown.
    """
    if kind not in _WIDEST:
        return None
    widest = _WIDEST_OF_UNKNOWN[kind]
    if rows is not None:
        widest = next((most for limit, most in _WIDEST[kind].items() if rows <= limit), 0)
    if width <= widest:
        return None
    batch = "of an unknown number of rows" if rows is None else f"of {rows} rows"
    return f"onnxruntime runs an {kind} of {width} features slower than a Scan, for a batch {batch}"


def missing_operator(cell: Cell[Any], form: Recurrent, target: Target) -> str | None:
    """Return why there is no operator for a cell: in the target, or on a GPU; None if there is one."""
    kind = f"RNN of {cell.activation}" if cell.kind == "RNN" else cell.kind
    if kind in target.lacks:
        return target.lacks[kind]
    if form not in ("gpu", "unrolled"):
        return None
    if cell.kind == "GRU" and not cell.linear_before_reset:
        return "onnxruntime has no CUDA kernel of GRU that resets before the product"
    if cell.kind == "RNN" and cell.activation != "Tanh":
        return f"onnxruntime has no CUDA kernel of RNN with {cell.activation}"
    return None

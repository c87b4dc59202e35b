"""LSTM, GRU and RNN of the reference evaluator with ``sequence_lens``, which its own ignore.

Each row of the batch runs separately, cut to its length; outputs beyond the length are zero, as ONNX specifies.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx.reference.ops.op_gru import GRU as PlainGRU  # noqa: N811 - a class of this name is needed below
from onnx.reference.ops.op_lstm import LSTM as PlainLSTM  # noqa: N811 - the same
from onnx.reference.ops.op_rnn import RNN_14 as PlainRNN  # noqa: N811 - the same

from caffe2_bridge.netdef.parameters import Array

_LENGTHS, _FIRST_STATE, _STATES = 4, 5, 2


class LSTM(PlainLSTM):
    """LSTM."""

    op_domain = ""

    def _run(self, *operands: Any, **attributes: Any) -> tuple[Array, ...]:
        return _run_ragged(super()._run, operands, attributes, _STATES)


class GRU(PlainGRU):
    """GRU."""

    op_domain = ""

    def _run(self, *operands: Any, **attributes: Any) -> tuple[Array, ...]:
        return _run_ragged(super()._run, operands, attributes, 1)


class RNN(PlainRNN):
    """RNN."""

    op_domain = ""

    def _run(self, *operands: Any, **attributes: Any) -> tuple[Array, ...]:
        return _run_ragged(super()._run, operands, attributes, 1)


def _run_ragged(run: Any, operands: tuple[Any, ...], attributes: dict[str, Any], states: int) -> tuple[Array, ...]:
    """Run the operator over rows of their own lengths. Operands are [T,N,I]; states [directions,N,H]."""
    lengths = operands[_LENGTHS] if len(operands) > _LENGTHS else None
    if lengths is None or attributes.get("layout"):
        return tuple(run(*operands, **attributes))
    sequence, recurrence = operands[0], operands[2]
    steps, batch = sequence.shape[:2]
    directions, hidden = recurrence.shape[0], recurrence.shape[2]
    results = [np.zeros((steps, directions, batch, hidden), sequence.dtype)]
    results += [np.zeros((directions, batch, hidden), sequence.dtype) for _ in range(states)]
    for row, length in enumerate(lengths.tolist()):
        given = list(operands)
        given[0], given[_LENGTHS] = sequence[:length, row : row + 1], None
        for i in range(_FIRST_STATE, min(_FIRST_STATE + states, len(given))):
            if given[i] is not None:
                given[i] = given[i][:, row : row + 1]
                results[i - _FIRST_STATE + 1][:, row] = given[i][:, 0]
        if length == 0:
            continue
        found = run(*given, **attributes)
        for k, value in enumerate(found):
            if k == 0:
                results[0][:length, :, row] = value[:, :, 0]
            else:
                results[k][:, row] = value[:, 0]
        count = len(found)
    return tuple(results[:count]) if lengths.any() else tuple(results)

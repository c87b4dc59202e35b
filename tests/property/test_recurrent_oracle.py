"""The interpreter that stands in for real Caffe2 says what real Caffe2 says."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.oracle import OracleRun, run_oracle
from support import cells
from support.cells import Recurrent
from support.netdef_interpreter import run_net

CELLS: dict[str, Recurrent] = {
    "LSTM": cells.lstm(forget="argument"),
    "LSTM, states dropped": cells.lstm(drop=True, add="Add", swapped=True),
    "LSTM, four dense layers": cells.lstm(gates="four", projection="inside", mask="none"),
    "LSTM, spelled out": cells.lstm(unit=False, mask="product", forget="vector"),
    "LSTM, spelled out and dropped": cells.lstm(unit=False, mask="product", drop=True, forget="scalar"),
    "GRU": cells.gru(),
    "GRU, reset first, states dropped": cells.gru(before_reset=False, drop=True),
    "GRU, spelled out": cells.gru(unit=False, mask="none"),
    "GRU, another formula": cells.gru(unit=False, mask="product", swapped=True),
    "RNN": cells.rnn("Relu"),
    "RNN, states dropped": cells.rnn(drop=True, projection="inside"),
}
SIZES = ((1, 1), (6, 4))


@pytest.mark.oracle
def test_cells() -> None:
    names = [(name, steps, batch) for name in CELLS for steps, batch in SIZES]
    runs = []
    for name, steps, batch in names:
        cell = CELLS[name]
        net = cell.net()
        runs.append(OracleRun(net, cells.feed(cell, steps, batch), cell.init(), tuple(net.external_output)))
    for (name, steps, batch), run, result in zip(names, runs, run_oracle(runs), strict=True):
        assert not result.error, (name, result.error)
        wanted = run_net(run.net, {**CELLS[name].weights, **run.inputs})
        assert result.outputs.keys() == set(run.net.external_output)
        for blob, value in result.outputs.items():
            message = f"{name}: {blob} for T={steps}, N={batch}"
            assert value.shape == wanted[blob].shape, message
            np.testing.assert_allclose(value, wanted[blob], rtol=1e-4, atol=2e-6, err_msg=message)

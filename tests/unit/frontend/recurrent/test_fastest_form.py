"""The form ``auto`` follows from the sizes that are known."""

from __future__ import annotations

import pytest
from support import cells
from support.exports import node_types

from caffe2_frontend import check, to_onnx


def inputs(rows: int | str) -> dict[str, object]:
    return {"x": ("float32", ["T", rows, cells.FEATURES]), "lengths": ("int32", [rows])}


@pytest.mark.parametrize(
    ("width", "rows", "form"),
    [
        (64, "N", "RNN"),
        (65, "N", "Scan"),
        (512, 1, "RNN"),
        (513, 1, "Scan"),
        (64, 4, "RNN"),
        (64, 16, "Scan"),
        (32, 16, "RNN"),
        (8, 64, "RNN"),
        (8, 65, "Scan"),
    ],
)
def test_rnn_of_few_features_is_the_operator(
    width: int, rows: int | str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells, "WIDTH", width)
    cell = cells.rnn()
    types = set(node_types(to_onnx(cell.net(), cell.init(), inputs=inputs(rows)).graph))
    assert form in types
    assert not {"RNN", "Scan"}.difference([form]).intersection(types)


@pytest.mark.parametrize("make", [cells.lstm, cells.gru])
def test_other_cells_are_operators_of_any_width(make: type[cells.Recurrent], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "WIDTH", 600)
    cell = make()
    types = set(node_types(to_onnx(cell.net(), cell.init(), inputs=inputs(100)).graph))
    assert not {"Scan", "If"}.intersection(types)


def test_the_reason_names_the_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "WIDTH", 128)
    cell = cells.rnn()
    (note,) = (str(d) for d in check(cell.net(), cell.init(), inputs=inputs(16)).findings if "Scan" in str(d))
    assert "because onnxruntime runs an RNN of 128 features slower than a Scan, for a batch of 16 rows" in note
    assert "no LSTM, GRU or RNN operator" not in note

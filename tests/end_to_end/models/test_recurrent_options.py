"""Certificates and streaming exports of the recorded recurrent models."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.paths import MODELS, ROOT

import caffe2_bridge as c2
from caffe2_backend.runtime.sessions.session import Session
from caffe2_bridge.cells.match import Columns
from caffe2_frontend import ExportOptions, NoStatesError, convert, to_onnx
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.recurrent import fused
from caffe2_frontend.recurrent.stateful import STATES_KEY
from caffe2_validation.certify import certify


@pytest.mark.parametrize(
    "folder",
    [
        ROOT / "models" / "char_rnn",
        *(MODELS / name for name in ("gru", "gru_linear_before_reset", "basic_rnn_relu", "basic_rnn_tanh")),
    ],
    ids=lambda folder: folder.name,
)
def test_fused_operators_are_certified(folder: Path) -> None:
    (certificate,) = certify(c2.load(folder))
    assert certificate.fused, str(certificate)
    assert certificate.agrees
    assert certificate.cases == 72
    assert certificate.worst > 0, "two forms that agree to the last bit are the same form"


@pytest.mark.parametrize(
    ("name", "reason"),
    [("milstm", "not an affine map"), ("layer_norm_lstm", "more than gates"), ("lstm", "cell state of every step")],
)
def test_what_is_not_fused_says_why(name: str, reason: str) -> None:
    (certificate,) = certify(c2.load(MODELS / name))
    assert not certificate.fused
    assert reason in certificate.reason


def test_a_wrong_operator_is_not_certified(monkeypatch: pytest.MonkeyPatch) -> None:
    right = fused._stack_columns

    def swapped(op: Op, columns: list[Columns]) -> Value:
        return right(op, list(reversed(columns)))

    monkeypatch.setattr(fused, "_stack_columns", swapped)
    (certificate,) = certify(c2.load(MODELS / "gru"))
    assert certificate.fused
    assert not certificate.agrees
    assert "NOT EQUAL" in str(certificate)


@pytest.mark.parametrize("form", ["fused", "scan", "loop"])
def test_two_calls_with_the_states_carried_are_one(form: str) -> None:
    model = c2.load(MODELS / "lstm_param_states")
    outputs = ["rnn/hidden_state_all"]
    converted = to_onnx(model, outputs=outputs, recurrent=form, stateful=True)
    pairs = json.loads(next(prop.value for prop in converted.metadata_props if prop.key == STATES_KEY))
    assert pairs == {
        "rnn/initial_hidden_state": "rnn/hidden_state_last",
        "rnn/initial_cell_state": "rnn/cell_state_last",
    }
    session = Session(converted.SerializeToString())
    random = np.random.default_rng(3)
    sequence = random.standard_normal((7, 2, model.params["rnn/i2h_w"].shape[1])).astype(np.float32)
    states = {name: random.standard_normal((1, 2, model.params[name].shape[-1])).astype(np.float32) for name in pairs}

    def call(part: np.ndarray, states: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return session.run({"input": part, "seq_lengths": np.full(2, len(part), np.int32), **states})

    whole = call(sequence, states)
    first = call(sequence[:3], states)
    second = call(sequence[3:], {name: first[output] for name, output in pairs.items()})
    steps = np.concatenate([first[outputs[0]], second[outputs[0]]])
    np.testing.assert_allclose(steps, whole[outputs[0]], rtol=1e-5, atol=1e-6)
    for output in pairs.values():
        np.testing.assert_allclose(second[output], whole[output], rtol=1e-5, atol=1e-6)


def test_a_net_without_states_is_not_stateful() -> None:
    with pytest.raises(NoStatesError, match="no recurrent state"):
        convert(c2.load(MODELS / "control_if_else"), options=ExportOptions(stateful=True))

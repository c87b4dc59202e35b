"""An LSTM that real Caffe2's UnrolledCell unrolled over four steps, as a loop for any number of steps."""

from __future__ import annotations

import numpy as np
import pytest
from support.models.recorded import model_values
from support.paths import GOLDEN

import caffe2_bridge as c2
from caffe2_backend.runtime.sessions.session import Session
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.reroll import reroll
from caffe2_frontend import to_onnx

FOLDER = GOLDEN / "recorded" / "models" / "unrolled_lstm"
OUTPUTS = ["lstm/hidden_state_concat", "timestep_3/lstm/hidden_state", "timestep_3/lstm/cell_state"]


def recorded(number: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    return model_values(FOLDER, "in", number), model_values(FOLDER, "out", number)


def types(net: NetDef) -> list[str]:
    return [op.type for op in net.op]


def test_the_loop_has_one_step_net() -> None:
    model = c2.load(FOLDER)
    rolled = reroll(model)
    assert types(rolled.predict_net) == ["FC", "RecurrentNetwork"]
    assert list(rolled.predict_net.external_output) == list(model.predict_net.external_output)
    assert types(model.predict_net).count("LSTMUnit") == 4, "the model given is left as it was"


@pytest.mark.parametrize("form", ["fused", "scan", "loop"])
def test_it_computes_what_caffe2_did(form: str) -> None:
    model = to_onnx(c2.load(FOLDER), outputs=OUTPUTS, recurrent=form, reroll=True)
    session = Session(model.SerializeToString())
    for number in range(3):
        inputs, outputs = recorded(number)
        for name, value in session.run(inputs).items():
            np.testing.assert_allclose(value, outputs[name], rtol=1e-3, atol=1e-4, err_msg=name)


def test_it_serves_any_number_of_steps() -> None:
    session = Session(to_onnx(c2.load(FOLDER), outputs=OUTPUTS, reroll=True).SerializeToString())
    inputs, outputs = recorded(1)
    states = {"hidden_init": inputs["hidden_init"], "cell_init": inputs["cell_init"]}
    for steps in (1, 3, 9):
        sequence = np.resize(inputs["input"], (steps, *inputs["input"].shape[1:]))
        lengths = np.full(sequence.shape[1], steps, np.int32)
        whole = session.run({"input": sequence, "seq_lengths": lengths, **states})[OUTPUTS[0]]
        assert len(whole) == steps
        same = min(steps, int(inputs["seq_lengths"][0]))
        np.testing.assert_allclose(whole[:same], outputs[OUTPUTS[0]][:same], rtol=1e-3, atol=1e-4)


def changed(model: c2.Model, index: int, place: int, name: str) -> c2.Model:
    net = NetDef()
    net.CopyFrom(model.predict_net)
    net.op[index].input[place] = name
    net.external_input.append(name)
    return c2.Model(net, model.init)


@pytest.mark.parametrize(
    ("index", "place", "name"),
    [
        (5, 1, "other_w"),  # one step has a matrix of its own
        (6, 1, "lstm/i2h_timestep_0"),  # one step reads another step's row
        (7, 1, "cell_init"),  # one step starts again
    ],
)
def test_steps_that_differ_stay_unrolled(index: int, place: int, name: str) -> None:
    model = changed(c2.load(FOLDER), index, place, name)
    assert reroll(model) is model


def test_a_net_that_reads_a_step_in_the_middle_stays_unrolled() -> None:
    model = c2.load(FOLDER)
    net = NetDef()
    net.CopyFrom(model.predict_net)
    net.external_output.append("timestep_1/lstm/hidden_state")
    middle = c2.Model(net, model.init)
    assert reroll(middle) is middle

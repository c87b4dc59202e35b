"""Generated inputs: what the model says about them holds."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator
from support.cells import fills
from support.paths import MODELS

from caffe2_bridge import Model, RunError, load
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx
from caffe2_validation.forms import Forms
from caffe2_validation.inputs.specs import make_cases
from caffe2_validation.sizes import SIZES

RECURRENT = ["lstm", "gru", "basic_rnn_relu", "lstm_drop_states", "lstm_two_layers", "attention_regular", "milstm"]


@pytest.mark.parametrize("name", RECURRENT)
@pytest.mark.parametrize("form", ["auto", "scan"])
def test_time_and_batch_are_one_across_inputs(name: str, form: str) -> None:
    model = load(MODELS / name)
    cases = make_cases(to_onnx(model, recurrent=form), model)  # type: ignore[arg-type] # one of the literals
    assert [case.name for case in cases] == [str(size) for size in SIZES]
    for case, size in zip(cases, SIZES, strict=True):
        for blob, value in case.inputs.items():
            if value.dtype == np.int32:
                assert value.shape == (size.batch,)
                assert value.min() >= 1
                assert value.max() == size.steps
            elif value.shape[0] == 1 and ("init" in blob or blob.endswith("0")):
                assert value.shape[1] == size.batch
            else:
                assert value.shape[:2] == (size.steps, size.batch)


def test_the_seed_decides() -> None:
    model = load(MODELS / "lstm")
    graph = to_onnx(model)
    one, two, other = (make_cases(graph, model, seed=seed)[1].inputs["input"] for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)


def embedding() -> Model:
    table = np.ones((7, 2), np.float32)
    net = NetDef(
        name="n", op=[operator("SparseLengthsSum", ["table", "indices", "lengths"], ["y"])],
        external_input=["table", "indices", "lengths"], external_output=["y"],
    )  # fmt: skip
    return Model.of(net, fills({"table": table}))


def test_indices_stay_in_their_table_and_lengths_add_up() -> None:
    model = embedding()
    for case in make_cases(Forms(model).graph, model):
        indices, lengths = case.inputs["indices"], case.inputs["lengths"]
        assert indices.max() < 7
        assert indices.min() >= 0
        assert lengths.sum() == indices.shape[0]


def test_what_the_net_does_not_say_is_guessed_and_told() -> None:
    forms = Forms(load(MODELS / "control_while"))
    assert set(forms.guessed) == set()
    cases = make_cases(forms.graph, None)
    assert forms.guessed
    assert all(value.size == 1 for name, value in cases[0].inputs.items() if name in forms.guessed)


@pytest.mark.parametrize("groups", [1, 2])
def test_an_image_has_the_channels_that_its_filters_take(groups: int) -> None:
    conv = operator("Conv", ["x", "w", "b"], ["y"], kernel=3, group=groups)
    net = NetDef(name="n", op=[conv], external_input=["x", "w", "b"], external_output=["y"])
    model = Model.of(net, fills({"w": np.ones((4, 3, 3, 3), np.float32), "b": np.ones(4, np.float32)}))
    for case in make_cases(Forms(model).graph, model):
        assert case.inputs["x"].shape[1] == 3 * groups


def test_an_input_of_no_rank_is_refused() -> None:
    import onnx

    graph = onnx.parser.parse_model('<ir_version: 9, opset_import: ["" : 20]> g (float x) => (float y) { y = Relu(x) }')
    graph.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(RunError, match="input 'x'"):
        make_cases(graph)

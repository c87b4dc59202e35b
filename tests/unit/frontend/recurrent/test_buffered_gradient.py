"""RecurrentNetworkGradient that carries whole blobs: one model for every T and N, as PyTorch computes in double.

``tests/golden/specs/gradients/sequence/recurrent.py`` has what real Caffe2 ran: windows, initial rows and memories.
"""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from support.builder.cell_gradients import cell, compare, exported, inputs_of
from support.builder.windows import with_window
from support.exports import node_types, run, specs_of
from support.paths import MODELS

import caffe2_bridge as c2
from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx
from caffe2_frontend.options import Recurrent


@pytest.mark.torch
@pytest.mark.parametrize("form", ["auto", "scan", "loop"])
@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_random_cells(seed: int, form: Recurrent) -> None:
    drawn = cell(seed)
    model = exported(drawn, form, drawn.inputs, net=with_window(drawn.net.proto))
    for steps, batch in ((4, 2), (2, 3)):
        compare(drawn, model, inputs_of(drawn, steps, batch))


@pytest.mark.torch
@pytest.mark.parametrize("seed", [3, 7, 11])
def test_known_sizes(seed: int) -> None:
    drawn = cell(seed)
    inputs = inputs_of(drawn, 3, 2)
    compare(drawn, exported(drawn, "auto", inputs, sizes=True, net=with_window(drawn.net.proto)), inputs)


@pytest.mark.parametrize("form", ["auto", "scan"])
@pytest.mark.parametrize("name", ["attention_train", "gru_train", "lstm_train"])
def test_recorded_models(name: str, form: Recurrent) -> None:
    """Check that blobs that are rows keep the shapes that operators gave them."""
    model = c2.load(MODELS / name)
    (op,) = (op for op in model.predict_net.op if op.type == "RecurrentNetwork")
    model = dataclasses.replace(model, predict_net=with_window(model.predict_net, op.input[0]))
    outputs = json.loads((MODELS / name / "model.json").read_text())["outputs"]
    with np.load(MODELS / name / "cases.npz", allow_pickle=False) as archive:
        cases = dict(archive)
    inputs = {key.removeprefix("0/in/"): value for key, value in cases.items() if key.startswith("0/in/")}
    exported = to_onnx(model, inputs=specs_of(inputs, sizes=False), outputs=outputs, recurrent=form)
    for output, value in zip(outputs, run(exported, inputs), strict=True):
        np.testing.assert_allclose(value, cases[f"0/out/{output}"], rtol=1e-4, atol=1e-5, err_msg=output)


@pytest.mark.parametrize("form", ["auto", "scan"])
@pytest.mark.parametrize("sizes", [False, True])
def test_no_steps(*, sizes: bool, form: Recurrent) -> None:
    drawn = cell(5)
    inputs = inputs_of(drawn, 0, 2)
    model = exported(drawn, form, inputs, sizes=sizes, net=with_window(drawn.net.proto))
    for name, value in zip(drawn.gradients, run(model, inputs)[1:], strict=True):
        assert value.shape == inputs[name].shape
        if not name.startswith("start"):
            assert not value.any()


def test_weight_gradients_leave_the_loop() -> None:
    """Expect one product over the rows of all steps, as in the form that carries rows."""
    drawn = next(cell(seed) for seed in range(40) if any("FC" in str(op) for op in cell(seed).net.proto.op))
    model = exported(drawn, "auto", drawn.inputs, net=with_window(drawn.net.proto))
    assert "Gemm" in set(node_types(model.graph))


def test_windows_in_the_form_scan_are_scans() -> None:
    drawn = cell(5)
    model = exported(drawn, "scan", drawn.inputs, net=with_window(drawn.net.proto))
    assert [*node_types(model.graph)].count("Scan") == 2
    assert "Loop" not in set(node_types(model.graph))


def test_windows_are_not_fused() -> None:
    drawn = cell(5)
    with pytest.raises(ConversionError, match="cannot have the form 'fused'"):
        exported(drawn, "fused", drawn.inputs, net=with_window(drawn.net.proto))


def test_a_gradient_at_another_offset_is_refused() -> None:
    """Refuse as real Caffe2 does: a gradient from outside must be of the rows after the first, or of the last."""
    drawn = cell(5)
    net = NetDef()
    net.CopyFrom(drawn.net.proto)
    for op in net.op:
        if op.type == "RecurrentNetworkGradient":
            (offsets,) = (arg for arg in op.arg if arg.name == "alias_offset")
            offsets.ints[0] = 0
    with pytest.raises(ConversionError, match="its offset must be 1 or -1, not 0"):
        to_onnx(net, inputs={name: (value.dtype, value.shape) for name, value in drawn.inputs.items()})


def test_rows_of_states_can_be_computed_again() -> None:
    """Check that a backward step that writes over a state's row with what the step wrote needs no whole states."""
    drawn = cell(5)
    net = NetDef()
    net.CopyFrom(drawn.net.proto)
    for op in net.op:
        if op.type == "RecurrentNetworkGradient":
            steps = {arg.name: arg.n for arg in op.arg if arg.HasField("n")}
            backward = [*steps["step_net"].op, *steps["backward_step_net"].op]
            del steps["backward_step_net"].op[:]
            steps["backward_step_net"].op.extend(backward)
    models = [exported(drawn, "auto", drawn.inputs, net=each) for each in (drawn.net.proto, net)]
    for one, other in zip(*(run(model, drawn.inputs) for model in models), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert "Loop" not in set(node_types(models[1].graph))

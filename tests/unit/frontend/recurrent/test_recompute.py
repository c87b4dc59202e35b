"""Blobs of the steps that gradients compute again instead of keeping them: the same gradients, from less memory."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import onnx
import pytest
from conformance.compare import mismatches
from conformance.oracle import OracleRun, run_oracle
from google.protobuf import text_format
from support.builder.cell_gradients import cell, compare, exported, inputs_of
from support.builder.dropout import with_dropout
from support.exports import run, specs_of
from support.paths import MODELS

import caffe2_bridge as c2
from caffe2_bridge.control import RecurrentNetworkGradient, parsed_bodies
from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.gradients import recompute_steps
from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import to_onnx
from caffe2_frontend.options import Recurrent


def gradient_of(net: NetDef) -> OperatorDef:
    (found,) = (op for op in net.op if op.type == "RecurrentNetworkGradient")
    return found


def scans(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        if node.op_type == "Scan":
            yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from scans(attribute.g)


# Cells whose gradients find blobs of the steps.
CELLS = [seed for seed in range(120) if recompute_steps(cell(seed).net.proto) != cell(seed).net.proto][:12]


@pytest.mark.torch
@pytest.mark.parametrize(
    ("seed", "form"), [*((seed, "auto") for seed in CELLS), *((seed, "loop") for seed in CELLS[:3])]
)
def test_random_cells(seed: int, form: Recurrent) -> None:
    drawn = cell(seed)
    model = exported(drawn, form, drawn.inputs, recompute="steps")
    for steps, batch in ((4, 2), (1, 3)):
        compare(drawn, model, inputs_of(drawn, steps, batch))


@pytest.mark.parametrize("seed", CELLS)
def test_only_rows_of_states_are_kept(seed: int) -> None:
    """Check that the forward loop returns states and their rows alone."""
    first = next(scans(exported(cell(seed), "scan", cell(seed).inputs, recompute="steps").graph))
    states = len(first.input) - next(each.i for each in first.attribute if each.name == "num_scan_inputs")
    assert len(first.output) <= 2 * states


def test_the_blobs_are_listed_as_caffe2_lists_them() -> None:
    net = cell(CELLS[0]).net.proto
    changed = recompute_steps(net)
    specs = [RecurrentNetworkGradient(OpView(gradient_of(each), 0)).spec for each in (net, changed)]
    assert specs[0].recomputed == ()
    assert specs[1].recomputed
    assert set(specs[1].recomputed) <= {name for op in specs[1].step_net.op for name in op.output}
    assert recompute_steps(changed) == changed


@pytest.mark.parametrize("name", ["attention_train", "gru_train", "lstm_train", "lstm_trainable"])
def test_recorded_models(name: str) -> None:
    model = c2.load(MODELS / name)
    outputs = json.loads((MODELS / name / "model.json").read_text())["outputs"]
    with np.load(MODELS / name / "cases.npz", allow_pickle=False) as archive:
        cases = dict(archive)
    inputs = {key.removeprefix("0/in/"): value for key, value in cases.items() if key.startswith("0/in/")}
    exported = to_onnx(model, inputs=specs_of(inputs, sizes=False), outputs=outputs, recompute="steps")
    for output, value in zip(outputs, run(exported, inputs), strict=True):
        np.testing.assert_allclose(value, cases[f"0/out/{output}"], rtol=1e-4, atol=1e-5, err_msg=output)


@pytest.mark.oracle
def test_real_caffe2_runs_the_net() -> None:
    """Check that the rewritten net is one that Caffe2's own helpers could have made."""
    model = c2.load(MODELS / "lstm_train")
    net = recompute_steps(model.predict_net)
    assert RecurrentNetworkGradient(OpView(gradient_of(net), 0)).spec.recomputed
    with np.load(MODELS / "lstm_train" / "cases.npz", allow_pickle=False) as archive:
        cases = dict(archive)
    inputs = {key.removeprefix("0/in/"): value for key, value in cases.items() if key.startswith("0/in/")}
    expected = {key.removeprefix("0/out/"): value for key, value in cases.items() if key.startswith("0/out/")}
    (result,) = run_oracle([OracleRun(net, inputs, model.init_net, list(expected))])
    assert not result.error
    assert not mismatches(expected, result.outputs)


def test_results_of_random_operators_are_kept() -> None:
    net = with_dropout()
    net.op.add(type="Copy", input=["h_all"], output=["h"])
    x = np.random.default_rng(2).standard_normal((6, 3, 4)).astype(np.float32)
    inputs = {"x": x, "start": np.zeros((1, 3, 4), np.float32)}
    model = to_onnx(net, inputs=specs_of(inputs), outputs=["h", "x_grad"], recompute="steps")
    h, gradient = run(model, inputs)
    assert set(np.unique(gradient)) == {0, 2}
    np.testing.assert_allclose(h[-1], (x * gradient).sum(axis=0), rtol=1e-5, atol=1e-5)


def test_two_gradients_of_one_forward_operator() -> None:
    """Check that each backward step net starts with the operators once, and the copy in the forward operator too."""
    net = NetDef()
    net.CopyFrom(cell(CELLS[0]).net.proto)
    net.op.add().CopyFrom(gradient_of(net))
    net.op[-1].output[:] = [f"{name}_2" for name in net.op[-1].output]
    once = recompute_steps(cell(CELLS[0]).net.proto)
    twice = recompute_steps(net)
    assert list(twice.op[: len(once.op)]) == list(once.op)
    assert twice.op[-1].arg == gradient_of(once).arg


def test_steps_that_are_written_as_text() -> None:
    """Rewrite those of older releases: they stay texts, and the operators are those of nets."""
    net, text = NetDef(), NetDef()
    net.CopyFrom(cell(CELLS[0]).net.proto)
    text.CopyFrom(net)
    for op in text.op:
        for arg in op.arg:
            if arg.HasField("n"):
                arg.s = text_format.MessageToString(arg.n).encode()
                arg.ClearField("n")
    with parsed_bodies(changed := recompute_steps(text)):
        assert changed == recompute_steps(net)
    assert not any(arg.HasField("n") for op in changed.op for arg in op.arg)


def test_steps_that_write_over_what_they_read_keep_their_form() -> None:
    drawn = cell(1)
    net = NetDef()
    net.CopyFrom(drawn.net.proto)
    for op in net.op:
        for arg in op.arg:
            if arg.name == "step_net":
                arg.n.op.insert(0, OperatorDef(type="Tanh", input=["x_t"], output=["x_t"]))
    assert recompute_steps(net) == net


def test_an_unknown_choice() -> None:
    with pytest.raises(OptionError, match="recompute must be one of none, steps, not 'all'"):
        to_onnx(NetDef(), recompute="all")  # type: ignore[arg-type] # on purpose

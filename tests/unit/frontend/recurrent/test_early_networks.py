"""RecurrentNetworks as releases of early 2017 write them are exported as those of today."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from support.paths import MODELS

import caffe2_bridge as c2
from caffe2_backend.runtime.sessions.session import Session
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import to_onnx


def early(net: NetDef, *, gates: str, size: int) -> NetDef:
    """Return the net with initial states by name, rows of ``gates`` kept in blob "kept", and no blob of workspaces."""
    result = NetDef()
    result.CopyFrom(net)
    for op in result.op:
        if op.type == "RecurrentNetwork":
            make_early(op, gates, size)
    return result


def make_early(op: OperatorDef, gates: str, size: int) -> None:
    del op.output[-1]
    (ids,) = (list(arg.ints) for arg in op.arg if arg.name == "initial_recurrent_state_ids")
    kept = [arg for arg in op.arg if arg.name not in {"initial_recurrent_state_ids", "outputs_with_grads"}]
    for arg in kept:
        if arg.name == "link_internal":
            arg.strings.append(gates.encode())
        elif arg.name == "link_external":
            arg.strings.append(b"kept")
        elif arg.name == "link_offset":
            arg.ints.append(0)
    op.ClearField("arg")
    op.arg.extend(kept)
    op.arg.add(name="recurrent_inputs", strings=[op.input[i].encode() for i in ids])
    op.arg.add(name="recurrent_sizes", ints=[size // 4] * len(ids))
    op.arg.add(name="recurrent_input_ids", ints=ids)
    op.arg.add(name="scratch", strings=[b"kept"])
    op.arg.add(name="scratch_sizes", ints=[size])


@pytest.mark.parametrize("form", ["auto", "scan", "loop"])
def test_an_early_lstm_becomes_the_same_graph(form: str) -> None:
    model, given, gates, size = lstm()
    modern = to_onnx(model.predict_net, model.init_net, inputs=described(given), recurrent=form)  # type: ignore[arg-type]
    net = early(model.predict_net, gates=gates, size=size)
    exported = to_onnx(net, model.init_net, inputs=described(given), recurrent=form)  # type: ignore[arg-type]
    assert plain(exported.graph) == plain(modern.graph)


def test_rows_kept_for_a_gradient_can_be_read() -> None:
    model, given, gates, size = lstm()
    net = early(model.predict_net, gates=gates, size=size)
    net.op.add(type="Copy", input=["kept"], output=["read"])
    net.external_output.append("read")
    exported = to_onnx(net, model.init_net, inputs=described(given))
    found = Session(exported.SerializeToString()).run(given)
    expected = Session(to_onnx(model.predict_net, model.init_net, inputs=described(given)).SerializeToString()).run(
        given
    )
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6)
    steps, batch = next(value.shape[:2] for value in given.values() if value.ndim == 3)
    assert found["read"].shape == (steps, batch, size)
    assert np.abs(found["read"]).max() > 0


def lstm() -> tuple[c2.Model, dict[str, np.ndarray], str, int]:  # type: ignore[type-arg]
    """Return a recorded LSTM, operands of its first case, and the blob of its gates with its size."""
    model = c2.load(MODELS / "lstm")
    with np.load(MODELS / "lstm" / "cases.npz", allow_pickle=False) as archive:
        given = {key.removeprefix("0/in/"): archive[key] for key in archive if key.startswith("0/in/")}
    (op,) = (op for op in model.predict_net.op if op.type == "RecurrentNetwork")
    (step,) = (arg.n for arg in op.arg if arg.name == "step_net")
    (unit,) = (inner for inner in step.op if inner.type == "LSTMUnit")
    gates = unit.input[2]
    (bias,) = (inner.input[2] for inner in step.op if inner.type == "FC")
    return model, given, gates, model.params[bias].size


def described(given: dict[str, np.ndarray]) -> dict[str, tuple[str, tuple[int, ...]]]:  # type: ignore[type-arg]
    return {name: (str(value.dtype), value.shape) for name, value in given.items()}


def plain(graph: onnx.GraphProto) -> bytes:
    """Return the graph without metadata, which records the operators as they are written."""
    copy = onnx.GraphProto()
    copy.CopyFrom(graph)
    strip(copy)
    return copy.SerializeToString(deterministic=True)


def strip(graph: onnx.GraphProto) -> None:
    graph.ClearField("metadata_props")
    for node in graph.node:
        node.ClearField("metadata_props")
        for attribute in node.attribute:
            if attribute.HasField("g"):
                strip(attribute.g)
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        value.ClearField("metadata_props")

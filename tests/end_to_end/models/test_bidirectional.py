"""A forward and a reversed net over the same input are one bidirectional operator, with padding as Caffe2 has it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from support.models.recorded import model_values
from support.paths import MODELS

import caffe2_bridge as c2
from caffe2_backend.runtime.sessions.session import Session
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import to_onnx

SHARED = ("seq_lengths",)


def renamed(op: OperatorDef, prefix: str, sequence: str, outer: set[str]) -> OperatorDef:
    """Return a copy of an operator of the recorded net, with blobs of its own and its input taken from ``sequence``."""

    def name(blob: str) -> str:
        if blob in SHARED:
            return blob
        return sequence if blob == "input" else prefix + blob

    new = OperatorDef()
    new.CopyFrom(op)
    new.input[:] = [name(blob) for blob in op.input]
    new.output[:] = [name(blob) for blob in op.output]
    for arg in new.arg:
        if arg.name in ("link_external", "alias_src", "alias_dst", "recurrent_states"):
            arg.strings[:] = [name(blob.decode()).encode() for blob in arg.strings]
        if arg.name == "step_net":
            for inner in arg.n.op:
                inner.input[:] = [name(blob) if blob in outer else blob for blob in inner.input]
    return new


def bidirectional(model: c2.Model) -> tuple[NetDef, NetDef]:
    """Return the recorded net along its input and along the input reversed, with random parameters of their own."""
    net, init = NetDef(name="bidirectional"), NetDef()
    outer = {*model.predict_net.external_input}
    random = np.random.default_rng(0)
    for prefix, sequence in (("f_", "input"), ("b_", "reversed")):
        if prefix == "b_":
            net.op.append(OperatorDef(type="ReversePackedSegs", input=["input", "seq_lengths"], output=["reversed"]))
        net.op.extend(renamed(op, prefix, sequence, outer) for op in model.predict_net.op)
        for name, parameter in model.init.parameters.items():
            fill = init.op.add(type="GivenTensorFill", output=[prefix + name])
            fill.arg.add(name="shape", ints=parameter.shape)
            fill.arg.add(name="values", floats=0.5 * random.standard_normal(parameter.size))
    steps = next(name for name in model.outputs if name.endswith("_all"))
    net.op.append(OperatorDef(type="ReversePackedSegs", input=[f"b_{steps}", "seq_lengths"], output=["b_steps"]))
    concat = net.op.add(type="Concat", input=[f"f_{steps}", "b_steps"], output=["both", "dims"])
    concat.arg.add(name="axis", i=2)
    states = [f"{prefix}{name}" for prefix in ("f_", "b_") for name in model.outputs if name.endswith("_last")]
    net.external_output.extend(["both", *states])
    return net, init


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("lstm", "LSTM"),
        ("lstm_drop_states", "LSTM"),
        ("gru", "GRU"),
        ("gru_linear_before_reset", "GRU"),
        ("basic_rnn_relu", "RNN"),
        ("basic_rnn_tanh", "RNN"),
    ],
)
def test_two_directions_are_one_operator(name: str, kind: str) -> None:
    model = c2.load(MODELS / name)
    net, init = bidirectional(model)
    cases = [model_values(MODELS / name, "in", case) for case in range(3)]
    feeds = [
        {prefix + k if k.startswith("init_") else k: v for k, v in case.items() for prefix in ("f_", "b_")}
        for case in cases
    ]
    described = {key: (value.dtype, [None] * value.ndim) for key, value in feeds[0].items()}
    fused = to_onnx(net, init, inputs=described, recurrent="fused")
    types = Counter(node.op_type for node in fused.graph.node)
    assert types[kind] == 1
    assert not types["ReverseSequence"]
    (node,) = (node for node in fused.graph.node if node.op_type == kind)
    assert {attr.name: attr.s for attr in node.attribute}["direction"] == b"bidirectional"
    scan = to_onnx(net, init, inputs=described, recurrent="scan")
    one, other = Session(fused.SerializeToString()), Session(scan.SerializeToString())
    for feed in feeds:
        expected = other.run(feed)
        for output, value in one.run(feed).items():
            np.testing.assert_allclose(value, expected[output], rtol=1e-4, atol=1e-5, err_msg=output)


@pytest.mark.parametrize("full", [False, True])
def test_reversed_directions_stay_reversals(full: bool) -> None:
    net, init = bidirectional(c2.load(MODELS / "lstm"))
    model = to_onnx(net, init, recurrent="portable", full_lengths=full)
    default = to_onnx(net, init)
    nodes = [node for node in model.graph.node if node.op_type == "LSTM"]
    assert len(nodes) == 2
    assert not any(attr.name == "direction" for node in nodes for attr in node.attribute)
    assert ("ReverseSequence" in {node.op_type for node in model.graph.node}) is not full
    random = np.random.default_rng(1)
    inputs = {}
    for value in default.graph.input:
        dims = value.type.tensor_type.shape.dim
        sizes = [dim.dim_value or {"T": 3, "N": 2}.get(dim.dim_param, 2) for dim in dims]
        inputs[value.name] = random.standard_normal(sizes).astype(np.float32)
    inputs["seq_lengths"] = np.array([3, 3] if full else [1, 3], np.int32)
    wanted = Session(default.SerializeToString(), threads=1).run(inputs)
    given = {value.name: inputs[value.name] for value in model.graph.input}
    assert ("seq_lengths" in given) is not full
    for name, value in Session(model.SerializeToString(), threads=1).run(given).items():
        np.testing.assert_allclose(value, wanted[name], rtol=1e-4, atol=2e-6)

"""Step nets that are almost an LSTM, GRU or RNN: none is fused, and the Scan computes what they compute."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator
from support import cells
from support.cells import Recurrent
from support.netdef_interpreter import run_net

from caffe2_backend.runtime.sessions.session import Session
from caffe2_bridge.diagnostics import ConversionError, Severity
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef
from caffe2_frontend import check, to_onnx

INPUTS = {"x": ("float32", ["T", "N", cells.FEATURES]), "lengths": ("int32", ["N"])}


def altered(cell: Recurrent, output: str, *ops: OperatorDef) -> Recurrent:
    """Return the cell with other operators in place of the one that makes ``output``."""
    position = next(i for i, op in enumerate(cell.steps) if output in op.output)
    cell.steps[position : position + 1] = ops
    return cell


def lstm() -> Recurrent:
    return cells.lstm(unit=False, mask="none")


def gru() -> Recurrent:
    return cells.gru(unit=False, mask="none")


def rnn() -> Recurrent:
    return cells.rnn(mask="none")


def twice(op_type: str, inputs: list[str], output: str) -> list[OperatorDef]:
    return [operator(op_type, inputs, [f"{output}_once"]), operator("Scale", [f"{output}_once"], [output], scale=2.0)]


NO_SUM = "not a sum of two products"
NO_OUTPUT = "not an output gate times tanh"
NO_MIX = "not a mix of itself and a candidate"
MISSES: dict[str, tuple[Recurrent, str]] = {
    "twice the forgotten part": (altered(lstm(), "kept", *twice("Mul", ["f", "c"], "kept")), NO_SUM),
    "twice the hidden state": (altered(lstm(), "new_h", *twice("Mul", ["o", "squashed"], "new_h")), NO_SUM),
    "tanh of the cell state before": (altered(lstm(), "squashed", operator("Tanh", ["c"], ["squashed"])), NO_OUTPUT),
    "tanh of the hidden state": (altered(lstm(), "squashed", operator("Tanh", ["h"], ["squashed"])), NO_OUTPUT),
    "no tanh of the cell state": (altered(lstm(), "squashed", operator("Copy", ["new_c"], ["squashed"])), NO_SUM),
    "relu of the cell state": (altered(lstm(), "squashed", operator("Relu", ["new_c"], ["squashed"])), NO_OUTPUT),
    "a forget gate of tanh": (altered(lstm(), "f", operator("Tanh", ["f_in"], ["f"])), "no term of a forget gate"),
    "a candidate of sigmoid": (altered(lstm(), "g", operator("Sigmoid", ["g_in"], ["g"])), NO_OUTPUT),
    "a gate used once more": (
        altered(
            lstm(), "new_c",
            operator("Sum", ["kept", "added"], ["both"]), operator("Sum", ["both", "i"], ["new_c"]),
        ),
        NO_SUM,
    ),
    "the output gate squared": (
        altered(lstm(), "new_h", operator("Mul", ["o", "squashed"], ["oh"]), operator("Mul", ["oh", "o"], ["new_h"])),
        NO_OUTPUT,
    ),
    "the hidden state added": (
        altered(lstm(), "new_h", operator("Mul", ["o", "squashed"], ["oh"]), operator("Add", ["oh", "h"], ["new_h"])),
        NO_SUM,
    ),
    "a subtracted update": (altered(lstm(), "new_c", operator("Sub", ["kept", "added"], ["new_c"])), NO_SUM),
    "a peephole": (
        altered(lstm(), "f", operator("Add", ["f_in", "c"], ["f_more"]), operator("Sigmoid", ["f_more"], ["f"])),
        "something other than the state, the input and biases",
    ),
    "a scaled gate": (
        altered(lstm(), "f", operator("Scale", ["f_in"], ["more"], scale=2.0), operator("Sigmoid", ["more"], ["f"])),
        "not an affine map",
    ),
    "two products with the state": (
        altered(lstm(), "from_h", cells.fc("h", "w", "once"), operator("Sum", ["once", "once"], ["from_h"])),
        "not an affine map",
    ),
    "the gate itself for the rest": (altered(gru(), "fresh", operator("Mul", ["u", "n"], ["fresh"])), NO_MIX),
    "twice the candidate": (altered(gru(), "n", *twice("Tanh", ["n_in"], "n")), NO_MIX),
    "a candidate of relu": (altered(gru(), "n", operator("Relu", ["n_in"], ["n"])), NO_MIX),
    "no reset gate": (altered(gru(), "n_r", operator("Copy", ["n_h"], ["n_r"])), "no reset gate"),
    "a reset of the input too": (
        altered(gru(), "n_in", operator("Mul", ["n_x", "r"], ["x_r"]), operator("Add", ["n_r", "x_r"], ["n_in"])),
        "also scales the input",
    ),
    "twice the tanh": (altered(rnn(), "new_h", *twice("Tanh", ["sum"], "new_h")), NO_MIX),
    "tanh of twice the sum": (
        altered(rnn(), "new_h", operator("Sum", ["sum", "sum"], ["more"]), operator("Tanh", ["more"], ["new_h"])),
        NO_MIX,
    ),
    "one step more than the lengths": (
        altered(
            cells.rnn(drop=True), "next_h_longer",
            operator("GE", ["lengths", "timestep"], ["next_h_longer"], broadcast=1),
        ),
        "more than gates",
    ),
    "half of the state kept past the lengths": (
        altered(
            cells.rnn(), "next_h",
            operator("Scale", ["next_h_past"], ["half"], scale=0.5),
            operator("Add", ["half", "next_h_kept"], ["next_h"]),
        ),
        "neither keep their states nor reset them",
    ),
    "every cell state wanted": (
        Recurrent(**vars(lstm()) | {"outputs": ("h_all", "c_all")}),
        "the cell state of every step",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISSES)
def test_a_near_miss_is_no_fused_operator(name: str) -> None:
    cell, reason = MISSES[name]
    net, init = cell.net(), cell.init()
    inputs = {k: v for k, v in INPUTS.items() if k in net.external_input}
    with pytest.raises(ConversionError) as refused:
        to_onnx(net, init, inputs=inputs, recurrent="fused")
    (finding,) = refused.value.findings
    assert reason in finding.reason
    assert "RecurrentNetwork" in str(finding.location)
    model = to_onnx(net, init, inputs=inputs)
    bodies = {node.op_type for node in model.graph.node}
    assert not bodies & {"LSTM", "GRU", "RNN"}
    notes = [finding for finding in check(net, init, inputs=inputs).findings if finding.severity is Severity.NOTE]
    assert len(notes) == 1
    assert reason in notes[0].reason
    session = Session(model.SerializeToString(), threads=1)
    arrays = cells.feed(cell, 5, 3)
    blobs = run_net(net, {**cell.weights, **arrays})
    for output, value in session.run(arrays).items():
        np.testing.assert_allclose(value, blobs[output], rtol=1e-4, atol=2e-6, err_msg=output)


def test_a_gate_that_is_another_gate_too_is_an_lstm() -> None:
    cell = altered(lstm(), "o", operator("Sigmoid", ["i_in"], ["o"]))
    model = to_onnx(cell.net(), cell.init(), inputs={"x": INPUTS["x"]}, recurrent="fused")
    arrays = cells.feed(cell, 4, 2)
    blobs = run_net(cell.net(), {**cell.weights, **arrays})
    for output, value in Session(model.SerializeToString(), threads=1).run(arrays).items():
        np.testing.assert_allclose(value, blobs[output], rtol=1e-4, atol=2e-6, err_msg=output)


def test_three_states_are_no_cell() -> None:
    steps = [operator("Tanh", [name], [f"new_{name}"]) for name in "abc"]
    cell = Recurrent(steps, {name: f"new_{name}" for name in "abc"}, lengths=False)
    inputs = {"x": INPUTS["x"]} | {f"{name}_0": ("float32", [1, "N", cells.WIDTH]) for name in "abc"}
    with pytest.raises(ConversionError, match="no LSTM, GRU or RNN operator"):
        to_onnx(cell.net(), inputs=inputs, recurrent="fused")

"""Cells: their states, sizes and names, and one step against a whole sequence.

Modules: attention_scores, lstm, multi, simple, wrapped.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance.executors import OnnxRuntime
from support.builder.cell_cases import CASES, cell_of, values

from caffe2_bridge.builder import (
    AttentionCell,
    AttentionType,
    BasicRNNCell,
    Cell,
    DropoutCell,
    GRUCell,
    LSTMCell,
    MultiRNNCell,
    Net,
    UnrolledCell,
)
from caffe2_bridge.diagnostics import BuildError
from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.proto.caffe2_pb2 import PROTO_CUDA, DeviceOption
from caffe2_frontend import to_onnx

LSTM = LSTMCell(name="a", input_size=3, hidden_size=4)
GRU = GRUCell(name="b", input_size=4, hidden_size=5)


def attention(**options: Any) -> AttentionCell:
    return AttentionCell(
        name="att", decoder=LSTM, encoder_outputs="encoded", encoder_output_size=6, forward_only=True, **options
    )


@pytest.mark.parametrize(
    ("cell", "states", "size", "state"),
    [
        (LSTM, ("a/hidden_t", "a/cell_t"), 4, 0),
        (GRU, ("b/hidden_t",), 5, 0),
        (BasicRNNCell(input_size=1, hidden_size=2), ("hidden_t",), 2, 0),
        (
            MultiRNNCell(name="m", cells=(LSTM, GRU)),
            ("m/layer_0/a/hidden_t", "m/layer_0/a/cell_t", "m/layer_1/b/hidden_t"),
            5,
            2,
        ),
        (DropoutCell(cell=GRU, ratio=0.5, is_test=False), ("b/hidden_t",), 5, 0),
        (UnrolledCell(cell=GRU, steps=3), ("b/hidden_t",), 5, 0),
        (attention(), ("att/hidden_t_external", "a/cell_t", "att/attention_weighted_encoder_context_t"), 10, 0),
        (
            attention(attention_type=AttentionType.SOFT_COVERAGE),
            ("att/hidden_t_external", "a/cell_t", "att/attention_weighted_encoder_context_t", "att/coverage_t"),
            10,
            0,
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Cell) else "",
)
def test_states_and_sizes(cell: Cell, states: tuple[str, ...], size: int, state: int) -> None:
    assert (cell.state_names, cell.output_size, cell.output_state) == (states, size, state)


@pytest.mark.parametrize(
    "name",
    [name for name, case in CASES.items() if case.cell["kind"] != "Unrolled" and not name.startswith("residual")],
)
def test_unrolled_is_the_same(name: str) -> None:
    """Check that T steps of plain operators give what a RecurrentNetwork does: on onnxruntime, without real Caffe2."""
    case = CASES[name]
    results = []
    for steps in (None, 4):
        net = Net("net")
        cell = cell_of(case.cell, forward_only=True)
        states: list[str] | None = [f"state_{i}" for i in range(len(case.states))] or None
        if isinstance(cell, AttentionCell) and cell.attention_type == AttentionType.SOFT_COVERAGE:
            states = None  # the coverage starts with a row of its own
        whole = cell if steps is None else UnrolledCell(cell=cell, steps=steps)
        output, rows = whole.apply_over_sequence(net, "x", "seq_lengths" if case.lengths else None, states)
        inputs = values(name, case, net)
        given = {blob: (inputs[blob].dtype, inputs[blob].shape) for blob in net.proto.external_input}
        results.append(OnnxRuntime(to_onnx(net.proto, inputs=given, outputs=[output, *rows])).run(inputs))
    for recurrent, unrolled in zip(*results, strict=True):
        np.testing.assert_allclose(recurrent, unrolled, rtol=1e-3, atol=1e-5)


def test_apply_prepares_the_input_and_combines_the_output() -> None:
    net = Net("net")
    cell = MultiRNNCell(name="m", cells=(LSTM, GRU), forward_only=True)
    output, states = cell.apply(net, "x_t", None, ("h", "c", "g"), "t")
    assert output == states[2] == "m/layer_1/b/hidden_t"
    assert states[:2] == ("m/layer_0/a/hidden_state", "m/layer_0/a/cell_state")
    assert next(op.output[0] for op in net.proto.op if op.type == "FC") == "m/a/i2h"


def test_attention_attends_once_for_many_steps() -> None:
    net = Net("net")
    cell = attention(encoder_lengths="lengths")
    prepared, ready = cell.prepare_input(net, "x")
    again, same = ready.prepare_input(net, "y")
    assert (prepared, again) == ("a/i2h", "a/i2h")
    assert same.encoded == ready.encoded
    assert sum(op.type == "Transpose" for op in net.proto.op) == 1
    assert cell.encoded is None


def test_attention_weights_can_be_read() -> None:
    net = Net("net")
    prepared, cell = attention().prepare_input(net, "x")
    step = cell.step(net, cell.step_input(net, prepared, None, ("h", "c", "context"), "t"))
    assert step.attention_weights == "att/attention_weights_3d"
    assert cell.step_output(net, step) == "att/states_and_context_combination"


def test_lengths_on_a_gpu_are_read_on_the_host() -> None:
    net = Net("net")
    cell = attention(attention_type=AttentionType.SOFT_COVERAGE)
    with net.device_scope(DeviceOption(device_type=PROTO_CUDA)):
        cell.initial_coverage(net)
    assert [op.type for op in net.proto.op] == ["Shape", "Slice", "CopyGPUToCPU", "ConstantFill"]


def test_dropout_is_on_the_output_alone() -> None:
    net = Net("net")
    cell = DropoutCell(name="drop", cell=LSTM, ratio=0.5, is_test=False)
    output, results = cell.apply_over_sequence(net, "x", None, ("h", "c"))
    assert results[0] == "a/hidden_state_all"
    assert output == "drop/a/hidden_state_all_with_dropout_mask0"
    dropout = net.proto.op[-1]
    assert (dropout.type, OpView(dropout, 0).args.number("ratio")) == ("Dropout", 0.5)
    assert cell.sequence_output(net, results) == "drop/a/hidden_state_all_with_dropout_mask1"


@pytest.mark.parametrize("ratio", [0.0, 0.5])
def test_nothing_is_dropped_in_a_net_that_is_not_trained(ratio: float) -> None:
    net = Net("net")
    cell = DropoutCell(cell=LSTM, ratio=ratio, is_test=False, forward_only=bool(ratio))
    assert cell.apply_over_sequence(net, "x", None, ("h", "c"))[0] == "a/hidden_state_all"


def test_a_cell_used_twice_shares_its_parameters() -> None:
    net = Net("net")
    for scope in ("one", "two"):
        with net.name_scope(scope, shares_parameters=True):
            LSTM.apply_over_sequence(net, "x", None, ("h", "c"))
    assert len(net.init_net.op) == 4
    assert len({output for op in net.proto.op for output in op.output}) == 2 * (1 + 5)


def refusals() -> dict[str, tuple[Any, str]]:
    net = Net("net")
    extra = LSTM.step_input(net, "x", None, ("h", "c"), "t")
    with_extra = type(extra)(extra.input_t, None, extra.states, extra.timestep, ((extra.input_t, 3),))
    return {
        "activation": (
            lambda: BasicRNNCell(input_size=1, hidden_size=1, activation="sine"),  # type: ignore[arg-type] # refused
            "activation must be tanh or relu, not 'sine'",
        ),
        "no_layers": (lambda: MultiRNNCell(cells=()), "at least one layer"),
        "residual_of_the_first": (
            lambda: MultiRNNCell(cells=(LSTM, GRU), residual_output_layers=(0,)),
            "must exclude layer 0 and be below 2, not 0",
        ),
        "residual_of_none": (
            lambda: MultiRNNCell(cells=(LSTM,), residual_output_layers=(1,)),
            "must exclude layer 0 and be below 1, not 1",
        ),
        "ratio": (lambda: DropoutCell(cell=LSTM, ratio=1.0, is_test=False), r"ratio must be in \[0, 1\), not 1.0"),
        "no_steps": (lambda: UnrolledCell(cell=LSTM, steps=0), "steps must be at least 1, not 0"),
        "states": (lambda: LSTM.apply_over_sequence(net, "x", None, ["h"]), "cell 'a' must get 2 states, not 1"),
        "states_of_a_step": (lambda: GRU.apply(net, "x", None, ["h", "c"], "t"), "cell 'b' must get 1 states, not 2"),
        "extra_for_gru": (lambda: GRU.step(net, with_extra), "a GRU cell must not have extra inputs"),
        "extra_for_attention": (
            lambda: attention().step(net, with_extra),
            "an attention cell must not have extra inputs",
        ),
        "not_prepared": (lambda: attention().step(net, extra), "prepare_input must be called before step"),
        "no_gradient": (
            lambda: BasicRNNCell(name="r", input_size=1, hidden_size=1).apply_over_sequence(net, "x", "lengths"),
            "r cannot be differentiated: .*Add overwrote it; .*; pass forward_only to omit its gradient",
        ),
    }


@pytest.mark.parametrize("name", refusals())
def test_what_cannot_be_built(name: str) -> None:
    build, reason = refusals()[name]
    with pytest.raises(BuildError, match=reason):
        build()

"""Stacks of many layers in one RecurrentNetwork."""

from __future__ import annotations

from typing import Any

import pytest

from caffe2_bridge.builder import GRUCell, LSTMCell, MultiRNNCell, Net
from caffe2_frontend import to_onnx

LAYERS = 24  # the gates of each read those of the layer before: expressions that are expanded are 4 times as long


@pytest.mark.parametrize(("kind", "gates"), [(LSTMCell, "LSTM"), (GRUCell, "GRU")])
def test_each_layer_is_an_operator(kind: Any, gates: str) -> None:
    net = Net("net")
    cells = tuple(kind(name=f"layer{i}", input_size=4, hidden_size=4, forward_only=True) for i in range(LAYERS))
    stack = MultiRNNCell(name="stack", cells=cells, forward_only=True)
    net.add_external_input("x", "seq_lengths")
    output, _ = stack.apply_over_sequence(net, "x", "seq_lengths")
    inputs: dict[str, Any] = {
        name: ("float32", ["T", "N", 4]) if name == "x" else ("int32", ["N"]) for name in ("x", "seq_lengths")
    }
    model = to_onnx(net.proto, net.init_net, inputs=inputs, outputs=[output])
    assert [node.op_type for node in model.graph.node].count(gates) == LAYERS

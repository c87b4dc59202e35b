"""The producer, domain, doc strings and metadata of an exported model."""

from __future__ import annotations

from importlib.metadata import version

import numpy as np
from support.cells import fills
from support.nets import net, op
from support.paths import CHAR_RNN

from caffe2_bridge import load
from caffe2_frontend import to_onnx


def test_a_model_names_its_producer_and_its_net() -> None:
    init = fills({"w": np.ones((2, 3), np.float32), "b": np.ones(2, np.float32)})
    model = to_onnx(net(op("FC", "x w b", "y"), inputs="x w b"), init)
    assert (model.producer_name, model.producer_version) == ("caffe2-bridge", version("caffe2-bridge"))
    assert model.domain == "ai.caffe2"
    assert model.doc_string == "Caffe2 net 'n', converted to ONNX by caffe2-bridge."
    assert model.graph.doc_string == "Caffe2 net 'n': 1 operator."
    metadata = {prop.key: prop.value for prop in model.metadata_props}
    assert metadata == {"caffe2.net": "n", "caffe2.operators": "1", "caffe2.parameters": "2"}
    assert model.graph.input[0].doc_string == "Blob 'x', first read by FC."
    assert model.graph.output[0].doc_string == "Blob 'y', written by FC."


def test_carried_states_name_each_other() -> None:
    model = to_onnx(load(CHAR_RNN), stateful=True)
    inputs = {value.name: value.doc_string for value in model.graph.input}
    outputs = {value.name: value.doc_string for value in model.graph.output}
    assert inputs["hidden_init"].endswith("; output 'LSTM/hidden_state_last' feeds it in the next call.")
    assert outputs["LSTM/hidden_state_last"].endswith("; feeds input 'hidden_init' in the next call.")


def test_a_second_export_is_identical() -> None:
    first, second = (to_onnx(load(CHAR_RNN)).SerializeToString(deterministic=True) for _ in range(2))
    assert first == second

"""Lowering of whole graphs: which parameters the net has."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from caffe2_backend import Workspace, to_netdef
from caffe2_bridge.control import all_names

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def recurrent(kind: str) -> onnx.ModelProto:
    """Return a recurrent operator of 2 features and 3 states."""
    random = np.random.default_rng(0)
    shapes = {"W": (1, GATES[kind] * 3, 2), "R": (1, GATES[kind] * 3, 3), "B": (1, GATES[kind] * 6)}
    model = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 14]>
        g (float[T,N,2] x) => (float[T,1,N,3] y) {{ y = {kind}<hidden_size = 3>(x, W, R, B) }}"""
    )
    model.graph.initializer.extend(
        numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name)
        for name, shape in shapes.items()
    )
    return model


@pytest.mark.parametrize("kind", GATES)
def test_weights_are_stored_once(kind: str) -> None:
    """Check that weights of ONNX's operator, which became parts of the net's own, are not parameters."""
    model = to_netdef(recurrent(kind))
    predict = model.predict_net
    read = {name for name in all_names(predict) if name not in predict.external_input}
    read |= {name for op in predict.op for name in op.input}
    assert model.params.keys() <= read
    assert {"W", "R", "B"}.isdisjoint(predict.external_input)
    assert model.inputs == ("x",)


def test_a_parameter_that_is_an_output_stays() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 14]>
        g (float[2] x) => (float[2] y, float[2] w) <float[2] w = {1, 2}, float[2] unread = {3, 4}> { y = Relu(x) }"""
    )
    net = to_netdef(model)
    assert [*net.params] == ["w"]
    workspace = Workspace()
    workspace.feed("x", np.array([-1, 1], np.float32))
    workspace.run_net_once(net.init_net)
    workspace.run_net_once(net.predict_net)
    assert workspace.fetch("w").tolist() == [1, 2]

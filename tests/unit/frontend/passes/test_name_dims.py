"""Dims of inputs and outputs: numbers where weights determine them, and one name for each unknown size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from support.cells import fills
from support.exports import run
from support.nets import net, op
from support.paths import CHAR_RNN

from caffe2_bridge import load
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import to_onnx

_FC = fills({"w": np.ones((2, 3), np.float32), "b": np.ones(2, np.float32)})
_CONV = fills({"w": np.ones((8, 3, 3, 3), np.float32), "b": np.ones(8, np.float32)})


def shapes(*ops: OperatorDef, init: NetDef, inputs: str = "x w b", **given: Any) -> Mapping[str, list[int | str]]:
    return all_shapes(to_onnx(net(*ops, inputs=inputs), init, inputs=given))


def all_shapes(model: onnx.ModelProto) -> dict[str, list[int | str]]:
    values = (*model.graph.input, *model.graph.output)
    return {
        value.name: [
            dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?"
            for dim in value.type.tensor_type.shape.dim
        ]
        for value in values
    }


def test_columns_of_a_product_are_the_weights() -> None:
    assert shapes(op("FC", "x w b", "y"), init=_FC) == {"x": ["N", 3], "y": ["N", 2]}


def test_channels_of_an_image_are_the_weights() -> None:
    found = shapes(op("Conv", "x w b", "y", kernel=3, pad=1), init=_CONV)
    assert found["x"] == ["N", 3, "H", "W"]
    assert found["y"][:2] == ["N", 8]


def test_channels_of_a_grouped_convolution() -> None:
    init = fills({"w": np.ones((8, 2, 1, 1), np.float32), "b": np.ones(8, np.float32)})
    assert shapes(op("Conv", "x w b", "y", kernel=1, group=4), init=init)["x"] == ["N", 8, "H", "W"]


def test_names_of_the_caller_stay() -> None:
    found = shapes(op("FC", "x w b", "y"), init=_FC, x=("float32", ["batch", "columns"]))
    assert found == {"x": ["batch", "columns"], "y": ["batch", 2]}


def test_a_usual_name_that_the_caller_uses_is_not_taken() -> None:
    found = shapes(op("Conv", "x w b", "y", kernel=1), init=_CONV_1, x=("float32", [None, None, "N", None]))
    assert found["x"] == ["x_dim_0", 3, "N", "W"]


_CONV_1 = fills({"w": np.ones((8, 3, 1, 1), np.float32), "b": np.ones(8, np.float32)})


def test_broadcast_dims_stay_apart() -> None:
    found = shapes(op("Add", "x z", "y", broadcast=1), init=NetDef(), inputs="x z", x=(None, [None]), z=(None, [None]))
    assert found["x"] == ["x_dim_0"]
    assert found["z"] == ["z_dim_0"]


def test_the_batch_and_the_time_of_a_recurrent_net_have_one_name() -> None:
    for form in ("auto", "fused", "scan", "loop"):
        found = all_shapes(to_onnx(load(CHAR_RNN), recurrent=form))  # type: ignore[arg-type] # a literal
        assert found == {
            "input_blob": ["T", "N", 94],
            "seq_lengths": ["N"],
            "hidden_init": [1, "N", 192],
            "cell_init": [1, "N", 192],
            "softmax": ["T", "N", 94],
            "LSTM/hidden_state_last": [1, "N", 192],
            "LSTM/cell_state_last": [1, "N", 192],
        }, form


def test_every_size_of_a_named_dim_runs() -> None:
    model = to_onnx(net(op("Conv", "x w b", "y", kernel=3), inputs="x w b"), _CONV)
    for size in ((1, 3, 5, 7), (4, 3, 3, 3)):
        (y,) = run(model, {"x": np.ones(size, np.float32)})
        assert y.shape == (size[0], 8, size[2] - 2, size[3] - 2)


def test_other_opsets_have_the_same_dims() -> None:
    found = [all_shapes(to_onnx(load(CHAR_RNN), opset=opset)) for opset in (13, 20, 23)]
    assert found[0] == found[1] == found[2]

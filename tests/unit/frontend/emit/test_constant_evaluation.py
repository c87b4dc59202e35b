"""Contents of small tensors, worked out while a net is converted."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_bridge import ConversionError
from caffe2_bridge.graph_edit import construct_init_net_from_params
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx


def test_an_index_beyond_its_table_is_a_finding() -> None:
    ops = [
        operator("Shape", ["x"], ["table"]),
        operator("Gather", ["table", "beyond"], ["dims"]),
        operator("Reshape", ["x", "dims"], ["y", "old"]),
    ]
    net = NetDef(name="n", op=ops, external_input=["x", "beyond"], external_output=["y"])
    init = construct_init_net_from_params({"beyond": np.array([0, 7], np.int32)})
    with pytest.raises(ConversionError, match="Gather"):
        to_onnx(net, init, inputs={"x": ("float32", (2, 3))})


def test_a_value_that_is_an_operand_twice_at_each_level_is_evaluated_once() -> None:
    levels = 60
    ops = [operator("Gather", [f"t{i}", f"t{i}"], [f"t{i + 1}"]) for i in range(levels)]
    net = NetDef(
        name="n",
        op=[
            operator("Shape", ["x"], ["t0"]),
            *ops,
            operator("Reshape", ["y", f"t{levels}"], ["z", "old"]),
        ],
        external_input=["x", "y"],
        external_output=["z"],
    )
    model = to_onnx(net, inputs={"x": ("float32", (1, 0, 2)), "y": ("float32", ("N", 2))})
    assert [dim.dim_value for dim in model.graph.output[0].type.tensor_type.shape.dim] == [0, 1, 2]

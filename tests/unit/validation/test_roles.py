"""Roles of inputs of operators that lack operands: their conversion reports those."""

from __future__ import annotations

import onnx
import pytest
from conformance.recording import operator

from caffe2_bridge.model import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.schemas import operator_schemas
from caffe2_validation.roles import find_roles


@pytest.mark.parametrize("count", range(5))
def test_operators_with_fewer_operands(count: int) -> None:
    names = [f"x{index}" for index in range(count)]
    for op_type in operator_schemas():
        if op_type.startswith("RecurrentNetwork"):
            continue
        op = operator(op_type, names, ["y"], dense_last_dim=2)
        assert set(find_roles(None, Model.of(NetDef(op=[op], external_input=names)))) <= set(names), op_type


def test_nodes_of_other_domains_have_no_roles() -> None:
    node = onnx.NodeProto(op_type="Gather", domain="my.domain", output=["y"])
    other = onnx.NodeProto(op_type="LSTM", domain="my.domain", input=list("abcde"), output=["z"])
    assert not find_roles(onnx.ModelProto(graph=onnx.GraphProto(node=[node, other])), None)

"""Evaluation of single nodes in their opset."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from caffe2_frontend.interop.inference.node_evaluation import evaluation_of


def test_axes_are_attributes_before_opset_13() -> None:
    node = onnx.NodeProto(op_type="Unsqueeze", input=["x"], output=["y"])
    node.attribute.add(name="axes", ints=[1], type=onnx.AttributeProto.INTS)
    assert evaluation_of(node, 11)({"x": np.zeros(2, np.float32)})[0].shape == (2, 1)


def test_operands_may_be_left_out_or_listed_twice() -> None:
    node = onnx.NodeProto(op_type="Clip", input=["x", "", "x"], output=["y"])
    assert evaluation_of(node, 13)({"x": np.float32(3)}) == [3]


def test_operands_that_do_not_fit() -> None:
    node = onnx.NodeProto(op_type="Gather", input=["x", "i"], output=["y"])
    with pytest.raises(IndexError):
        evaluation_of(node, 13)({"x": np.zeros(2), "i": np.array(7)})

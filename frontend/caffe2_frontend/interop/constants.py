"""Contents of values of ONNX graphs that are known, and tensors of strings."""

from __future__ import annotations

import onnx_ir as ir

from caffe2_bridge.netdef.parameters import Array
from caffe2_frontend.interop.domains import standard_type
from caffe2_frontend.interop.operators import OF_FIRST


def constant_of(value: ir.Value | None) -> Array | None:
    """Return the contents of a value if they are known, else None."""
    if value is None or value.is_graph_input():
        return None
    if value.const_value is not None:
        return value.const_value.numpy()
    producer = value.producer()
    if producer is not None and standard_type(producer) == "Constant" and "value" in producer.attributes:
        return producer.attributes["value"].as_tensor().numpy()
    return None


def string_tensor(array: Array) -> ir.StringTensor:
    """Return an ONNX string tensor of an array of str or bytes: no other one knows the size of its strings."""
    data = [v.encode() if isinstance(v, str) else bytes(v) for v in array.reshape(-1).tolist()]
    return ir.StringTensor(data, shape=ir.Shape(array.shape))


def is_part_of_zeros(value: ir.Value) -> bool:
    """Whether a value is a part of a tensor that a node fills with zeros, as PyTorch writes initial states."""
    node = value.producer()
    while node is not None and standard_type(node) in OF_FIRST and node.inputs[0] is not None:
        node = node.inputs[0].producer()
    if node is None or standard_type(node) != "ConstantOfShape":
        return False
    fill = node.attributes.get("value")
    return fill is None or not fill.as_tensor().numpy().any()

"""What is inferred without ONNX, or remembered, is what ONNX infers for the node."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest
from conformance.__main__ import GOLDEN, select
from conformance.corpus import CaseRef, find_cases, read_case
from conformance.trips import export

from caffe2_bridge.diagnostics import ConversionError
from caffe2_frontend.interop.bodies import all_nodes, has_bodies
from caffe2_frontend.lowering.inference import infer_outputs

# Operators of Caffe2 that convert to the operators that are inferred here, and to some that ONNX infers.
_TYPES = (
    "Relu", "Tanh", "Sigmoid", "Negative", "Exp", "Log", "Sqrt", "Abs", "Softmax", "Clip", "LeakyRelu", "Elu",
    "Selu", "Softplus", "Softsign", "Floor", "Ceil", "Sign", "Sin", "Cos", "Not", "Add", "Sub", "Mul", "Div", "Pow",
    "And", "Or", "Xor", "EQ", "LT", "GT", "LE", "GE", "FC", "MatMul", "Reshape", "Concat", "Transpose", "ReduceSum",
    "Slice",
)  # fmt: skip
_OPSET = 20


@pytest.mark.parametrize("ref", select(find_cases(GOLDEN), _TYPES, gradients=False, sample=4), ids=lambda ref: ref.id)
def test_as_onnx(ref: CaseRef) -> None:
    try:
        model = ir.from_proto(export(read_case(ref)))
    except ConversionError:
        pytest.skip("the case is refused")
    for node in all_nodes(model.graph):
        if not has_bodies(node) and node.op_type != "Constant":
            expected = inferred(node)
            for _ in range(2):  # the second time, what ONNX inferred is remembered
                for value in node.outputs:
                    value.type = value.shape = None
                infer_outputs(node, _OPSET)
                assert_known(node, expected)


def inferred(node: ir.Node) -> dict[str, onnx.TypeProto]:
    """Return what ONNX infers for a node alone."""
    operands = [value for value in node.inputs if value is not None]
    return onnx.shape_inference.infer_node_outputs(
        onnx.defs.get_schema(node.op_type, _OPSET),
        ir.serde.serialize_node(node),
        {str(value.name): ir.serde.serialize_value(value).type for value in operands},
        {str(v.name): ir.serde.serialize_tensor(v.const_value) for v in operands if v.const_value is not None},
        opset_imports=[onnx.OperatorSetIdProto(domain="", version=_OPSET)],
    )


def assert_known(node: ir.Node, expected: dict[str, onnx.TypeProto]) -> None:
    """Assert that the outputs have the types that ONNX infers, and its dims; a number may replace a name."""
    for value in node.outputs:
        kind = expected.get(str(value.name))
        if kind is None:
            continue
        assert value.type == ir.serde.deserialize_type_proto_for_type(kind)
        shape = ir.serde.deserialize_type_proto_for_shape(kind)
        if shape is None:
            continue
        assert value.shape is not None
        assert len(value.shape) == len(shape)
        for ours, theirs in zip(value.shape, shape, strict=True):
            if isinstance(theirs, int) or theirs.value is not None:
                assert ours == theirs or isinstance(ours, int)

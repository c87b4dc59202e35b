"""A model whose functions and products round otherwise: how far its results move tells how exact they can be."""

from __future__ import annotations

from typing import Final

import onnx
import onnx_ir as ir

# What loses digits in a step of a recurrent net. These functions are exact to a part of one, not of their result.
_FUNCTIONS: Final = frozenset({"Sigmoid", "Softmax", "Tanh"})
# The terms of a product may cancel: the errors are those of its operand.
_PRODUCTS: Final = frozenset({"Gemm", "MatMul"})


def rounded_otherwise(model: onnx.ModelProto, size: float, seed: int) -> onnx.ModelProto:
    """A copy with random errors up to ``size`` in what functions compute, and in each element that products multiply.

    Errors of functions are absolute, those of elements are relative.
    """
    copy = ir.serde.deserialize_model(model)
    for node in list(copy.graph.all_nodes()):
        if node.op_type in _FUNCTIONS:
            _move_result(node, size, seed)
        elif node.op_type in _PRODUCTS:
            _move_operand(node, size, seed)
    return ir.serde.serialize_model(copy)


def _move_result(node: ir.Node, size: float, seed: int) -> None:
    (exact,) = node.outputs
    error = _random(exact, f"{exact.name}/error", 0, size, seed)
    total = ir.node("Add", [exact, error.outputs[0]])
    (moved,) = total.outputs
    moved.type, moved.shape, moved.name, exact.name = exact.type, exact.shape, exact.name, f"{exact.name}/exact"
    ir.convenience.replace_all_uses_with(exact, moved, replace_graph_outputs=True)
    total.replace_input_with(0, exact)
    error.replace_input_with(0, exact)
    assert node.graph is not None
    node.graph.insert_after(node, [error, total])


def _move_operand(node: ir.Node, size: float, seed: int) -> None:
    exact = node.inputs[0]
    assert exact is not None
    assert node.graph is not None
    product = node.outputs[0].name
    error = _random(exact, f"{product}/error", 1, size, seed)
    moved = ir.node("Mul", [exact, error.outputs[0]])
    moved.outputs[0].name = f"{product}/operand"
    node.replace_input_with(0, moved.outputs[0])
    node.graph.insert_before(node, [error, moved])


def _random(like: ir.Value, name: str, around: float, size: float, seed: int) -> ir.Node:
    bounds = {"low": around - size, "high": around + size}
    node = ir.node("RandomUniformLike", [like], {**bounds, "seed": float(seed)})
    node.outputs[0].name = name
    return node

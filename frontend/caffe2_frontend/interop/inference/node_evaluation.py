"""Evaluation of single nodes by ONNX's reference implementation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import onnx


def evaluation_of(node: onnx.NodeProto, opset: int) -> Callable[[Mapping[str, Any]], list[Any]]:
    """Return what evaluates a node of ONNX's domain in an opset: from its operands, by name, to its outputs.

    It raises what NumPy's functions raise on operands that do not fit. onnx 1.23: a node alone is evaluated in the
    newest opset, where axes are operands; hence a function.
    """
    from onnx.reference import ReferenceEvaluator  # slow to import

    function = onnx.FunctionProto(
        name=node.op_type, input=dict.fromkeys(filter(None, node.input)), output=node.output, node=[node],
        opset_import=[onnx.OperatorSetIdProto(domain="", version=opset)],
    )  # fmt: skip
    evaluator = ReferenceEvaluator(function)
    return lambda feed: list(evaluator.run(None, dict(feed), attributes={}))

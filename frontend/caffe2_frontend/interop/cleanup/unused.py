"""Remove the nodes and constants of an ONNX model whose results are not used, as ``onnx_ir`` does, in less time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

import onnx
import onnx_ir as ir

from caffe2_frontend.interop.bodies import bodies

_OPTIONAL: Final = onnx.defs.OpSchema.FormalParameterOption.Optional
_VARIADIC: Final = onnx.defs.OpSchema.FormalParameterOption.Variadic


def remove_unused(model: ir.Model) -> None:
    """Remove nodes and initializers whose results are not used, in bodies too, and optional outputs that are not read.

    The graph's inputs and outputs stay. The model must not have functions.
    """
    graph = model.graph
    _prune(graph, graph.opset_imports.get(""))
    remove_unused_constants(graph)


def remove_unused_constants(graph: ir.Graph) -> None:
    """Remove the initializers of a graph that are not used, but for those that are inputs too."""
    for value in list(graph.initializers.values()):
        if not (value.uses() or value.is_graph_output() or value.is_graph_input()):
            del graph.initializers[str(value.name)]


def _prune(graph: ir.Graph, opset: int | None) -> None:
    results = frozenset(graph.outputs)
    for node in reversed(graph):
        outputs = node.outputs
        if not _is_used(outputs, results):
            graph.remove(node, safe=True)
            continue
        inputs = node.inputs
        if inputs and inputs[-1] is None:
            node.resize_inputs(max((i for i, value in enumerate(inputs, 1) if value is not None), default=0))
        if opset is not None and not node.domain:
            _drop_outputs(node, results, opset)
        if node.attributes:
            for body in bodies(node):
                _prune(body, opset)


def _is_used(outputs: Sequence[ir.Value], results: frozenset[ir.Value]) -> bool:
    for value in outputs:  # noqa: SIM110 - any() takes twice the time, for every node of a graph
        if value.uses() or value in results:
            return True
    return False


def _drop_outputs(node: ir.Node, results: frozenset[ir.Value], opset: int) -> None:
    """Leave out the optional outputs of a node that are not used."""
    try:
        optional = _optional_outputs(node.op_type, opset)
    except onnx.defs.SchemaError:
        return
    if not optional or not _computes_alike_without_outputs(node, opset):
        return
    outputs = node.outputs
    for index in optional:
        if index < len(outputs) and outputs[index] not in results and not outputs[index].uses():
            outputs[index].name = ""
    if not outputs[-1].name:
        node.resize_outputs(max((i for i, value in enumerate(outputs, 1) if value.name), default=0))


@cache
def _optional_outputs(op_type: str, opset: int) -> tuple[int, ...]:
    """Return the indices of the optional outputs of an operator; none where it has any number of outputs.

    Raises SchemaError where it is unknown: its name, which may be of any length, is not kept.
    """
    formals = onnx.defs.get_schema(op_type, opset, "").outputs
    if any(formal.option == _VARIADIC for formal in formals):
        return ()
    return tuple(index for index, formal in enumerate(formals) if formal.option == _OPTIONAL)


@cache
def _has_training_mode(opset: int) -> bool:
    """Whether an attribute of BatchNormalization is its mode."""
    return "training_mode" in onnx.defs.get_schema("BatchNormalization", opset, "").attributes


def _computes_alike_without_outputs(node: ir.Node, opset: int) -> bool:
    """Whether the other outputs stay the same. A BatchNormalization in training mode computes others.

    Before opset 14 its number of outputs is its mode. The attribute for inference, which is the default, is removed.
    """
    if node.op_type != "BatchNormalization":
        return True
    if not _has_training_mode(opset):
        return False
    mode = node.attributes.get("training_mode")
    if mode is not None and (mode.is_ref() or mode.type != ir.AttributeType.INT or mode.as_int() != 0):
        return False
    node.attributes.pop("training_mode", None)
    return True

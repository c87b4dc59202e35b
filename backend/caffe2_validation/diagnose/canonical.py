"""Canonical form of ONNX models, in which two of them can be aligned."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir.passes import common

from caffe2_bridge.diagnostics import RunError
from caffe2_frontend.interop.bodies import has_bodies
from caffe2_frontend.interop.domains import is_standard
from caffe2_frontend.interop.inference.node_evaluation import evaluation_of
from caffe2_frontend.interop.operators import RANDOM
from caffe2_validation.diagnose.expand_rnn import expand_recurrent

# Maximum number of elements of a folded constant; larger ones are still computed by their node.
_MOST_FOLDED: Final = 1 << 26


def canonical(model: onnx.ModelProto) -> ir.Model:
    """Return an equivalent model in canonical form: functions inlined, LSTM, GRU and RNN expanded, constants folded.

    Every constant is an initializer of the outer graph, and every value has a unique name. Raises RunError if the model
    is not valid.
    """
    # onnx_ir shares the tensors of the protobuf, and renaming an initializer would change them.
    own = onnx.ModelProto()
    own.CopyFrom(model)
    try:
        made = ir.from_proto(own)
        common.InlinePass()(made)
        expand_recurrent(made)
        common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(made)
        common.LiftSubgraphInitializersToMainGraphPass()(made)
        _fold(made)
        common.IdentityEliminationPass()(made)
        common.RemoveUnusedNodesPass()(made)
    except (ir.passes.PassError, ir.serde.SerdeError) as error:
        raise RunError(f"the model cannot be brought into canonical form: {error}") from error
    name_apart(made)
    return made


def constant(value: ir.Value | None) -> ir.TensorProtocol | None:
    """Return the tensor of an initializer that is not an input as well; None for any other value."""
    if value is None or not value.is_initializer() or value.is_graph_input():
        return None
    return value.const_value


def name_apart(model: ir.Model) -> None:
    """Rename values so that names are unique, also across bodies; inputs and outputs of the outer graph keep theirs."""
    taken = {str(value.name) for value in (*model.graph.inputs, *model.graph.outputs)}
    kept = {id(value) for value in (*model.graph.inputs, *model.graph.outputs)}
    for value in every_value(model.graph):
        if id(value) in kept or not value.name:
            continue
        name, count = value.name, 0
        while name in taken:
            count += 1
            name = f"{value.name}~{count}"
        taken.add(name)
        if name != value.name:
            rename(model.graph, value, name)


def rename(graph: ir.Graph, value: ir.Value, name: str) -> None:
    """Rename a value; initializers are registered by name."""
    if value.is_initializer():
        graph.initializers.pop(str(value.name))
        value.name = name
        graph.register_initializer(value)
    else:
        value.name = name


def every_value(graph: ir.Graph) -> list[ir.Value]:
    """Return the initializers, formal inputs and outputs of nodes, of the graph and its bodies."""
    found = [*graph.initializers.values()]
    for inner in (graph, *graph.subgraphs()):
        found += [value for value in inner.inputs if not value.is_initializer()]
        found += [value for node in inner for value in node.outputs]
    return found


def _fold(model: ir.Model) -> None:
    """Replace nodes whose operands are all constants by their results."""
    opset = model.opset_imports.get("", model.opset_imports.get("ai.onnx", 1))
    for node in list(ir.traversal.RecursiveGraphIterator(model.graph)):
        if not _is_foldable(node):
            continue
        feed = {}
        for value in node.inputs:
            tensor = constant(value)
            if value is not None and tensor is not None:
                feed[str(value.name)] = tensor.numpy()
        try:
            with np.errstate(all="ignore"):
                results = evaluation_of(ir.serde.serialize_node(node), opset)(feed)
        except Exception:  # noqa: BLE001, S112 - whatever the evaluator lacks: the node stays
            continue
        if any(np.asarray(result).size > _MOST_FOLDED for result in results):
            continue
        for value, result in zip([v for v in node.outputs if v.name], results, strict=True):
            made = ir.Value(name=value.name, type=value.type, const_value=ir.Tensor(np.asarray(result, order="C")))
            made.const_value.name = made.name  # type: ignore[union-attr] # it was just given
            value.name = f"{value.name}~folded"
            ir.convenience.replace_all_uses_with(value, made)
            model.graph.register_initializer(made)
        assert node.graph is not None
        node.graph.remove(node, safe=True)


def _is_foldable(node: ir.Node) -> bool:
    if not is_standard(node) or node.op_type in RANDOM or not any(node.inputs):
        return False
    if has_bodies(node):
        return False
    if any(value.is_graph_output() for value in node.outputs):
        return False
    return all(value is None or constant(value) is not None for value in node.inputs)

"""Upgrade Scan of opset 8, which has a batch axis, to a later Scan along the batch around one along time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import onnx_ir as ir

from caffe2_frontend.interop.bodies import all_nodes, value_names
from caffe2_frontend.interop.domains import is_standard
from caffe2_frontend.interop.names import Names

# ONNX's converter assumes that Scans of opset 8 have a batch of one, and removes it. Disguised as an If they pass: it
# converts the bodies of an If, and does not check its operands.
_DISGUISE: Final = "If"


def rewritten(model: ir.Model) -> ir.Model:
    """Return a copy of a model of opset 8 with later Scans, disguised for ONNX's converter.

    The Scans must have no sequence lengths (:mod:`caffe2_backend.opsets` refuses them).
    """
    model = model.clone()
    names = Names(value_names(model.graph))
    for node in list(all_nodes(model.graph)):
        if _is(node, "Scan"):
            _rewrite(node, names)
    _rename(model, "Scan", _DISGUISE)
    return model


def undisguise(model: ir.Model) -> None:
    """Turn what :func:`rewritten` disguised back into Scans, in place."""
    _rename(model, _DISGUISE, "Scan")


def _rename(model: ir.Model, old: str, new: str) -> None:
    for node in all_nodes(model.graph):
        if _is(node, old) and "body" in node.attributes:
            node.op_type = new


def _is(node: ir.Node, op_type: str) -> bool:
    return node.op_type == op_type and is_standard(node)


def _rewrite(node: ir.Node, names: Names) -> None:
    _lengths, *operands = node.inputs
    attributes = dict(node.attributes)
    directions = attributes.pop("directions", None)
    if directions is not None:
        attributes["scan_input_directions"] = ir.AttrInt64s("scan_input_directions", list(directions.as_ints()))
    body = attributes["body"].as_graph()
    node.attributes.clear()
    rows = [_without_batch(value, names) for value in operands]
    inner = ir.Node("", "Scan", rows, list(attributes.values()), num_outputs=len(node.outputs))
    for made in inner.outputs:
        made.name = names.fresh(f"{body.name}_result")
    along_batch = ir.Graph(rows, inner.outputs, nodes=[inner], name=f"{body.name}_batch")
    node.attributes.add(ir.AttrGraph("body", along_batch))
    node.attributes.add(ir.AttrInt64("num_scan_inputs", len(rows)))
    node.resize_inputs(len(rows))
    for index, operand in enumerate(operands):
        node.replace_input_with(index, operand)


def _without_batch(value: ir.Value | None, names: Names) -> ir.Value:
    if value is None:
        raise ValueError("an input of Scan is missing")
    dims: Sequence[int | ir.SymbolicDim] | None = None if value.shape is None else list(value.shape)[1:]
    return ir.Value(
        name=names.fresh(f"{value.name}_row"), type=value.type, shape=None if dims is None else ir.Shape(dims)
    )

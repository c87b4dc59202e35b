"""Shapes and types of the outputs of host operators, of those for which Caffe2 infers them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from caffe2_bridge.netdef.views import ArgumentError, OpView
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef, TensorProto

Known = tuple[list[int], int]  # shape and Caffe2's data type


def infer_host_operator(op: OperatorDef, known: Mapping[str, Known]) -> dict[str, Known] | None:
    """Return the outputs of a host operator that Caffe2 infers; None for operators of other types.

    Inputs need not be known: objects never are.
    """
    rule = _RULES.get(op.type)
    if rule is None:
        return None
    try:
        return rule(OpView(op, 0), known)
    except ArgumentError:  # the run reports it
        return {}


def _count(op: OpView, _: Mapping[str, Known]) -> dict[str, Known]:
    """Return an int64 without dims; for IndexGet, whose numbers have the shape of the keys, Caffe2 claims so, too."""
    return {op.outputs[0]: ([], TensorProto.INT64)}


def _last_rows(op: OpView, known: Mapping[str, Known]) -> dict[str, Known]:
    """Return the shape of the full ring."""
    rows = known.get(op.inputs[2])
    found = {op.outputs[1]: known[op.inputs[1]]} if op.inputs[1] in known else {}
    if rows is not None and rows[0]:
        found[op.outputs[0]] = [op.args.integer("num_to_collect"), *rows[0][1:]], rows[1]
    return found


_RULES: Final[Mapping[str, Callable[[OpView, Mapping[str, Known]], dict[str, Known]]]] = {
    "IndexGet": _count,
    "LastNWindowCollector": _last_rows,
    "RetrieveCount": _count,
}

"""Scatters of whole rows by their indices, instead of element by element.

Exported models add rows to tables with ScatterElements, of which every runtime adds repeated indices one after another;
it takes an index for every element. ScatterND takes one for every row, and onnxruntime's is several times as fast, but
divides the rows among threads and does not keep these from adding to the same row. It is used on the host where one
thread adds all rows: in a session of one thread, or of few elements, which onnxruntime does not divide. Both add the
rows of an index in the order of the rows, so that the results are equal bit for bit.
"""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np
import onnx_ir as ir
from onnx_ir.convenience import replace_nodes_and_values

from caffe2_backend.runtime.program.states.graph_edits import remove_unread, static_shape
from caffe2_frontend.interop.domains import is_standard
from caffe2_frontend.interop.rewriting.node_emitter import add_constant

# onnxruntime takes another thread for every 100,000 elements beyond the first 100,000 (ThreadPool::TryParallelFor, with
# one cycle per element); the limit leaves room for other versions.
_UNDIVIDED: Final = 1 << 15
_DTYPES: Final = (ir.DataType.FLOAT, ir.DataType.DOUBLE)


def scatter_rows(model: ir.Model, threads: int | None) -> None:
    """Scatter rows by row in a model, in place, where no two threads can add to the same row.

    Args:
        model: the model.
        threads: of its sessions; None if not known.
    """
    for node in list(model.graph):
        ids = _row_indices(node)
        if ids is None or not (threads == 1 or prod(static_shape(_input(node, 2)) or ()) <= _UNDIVIDED):
            continue
        (old,) = node.outputs
        columns = ir.node("Unsqueeze", [ids, add_constant(model.graph, f"{old.name}/axes", [1], np.int64)])
        column = columns.outputs[0]
        column.name, column.type = f"{old.name}/rows", ids.type
        column.shape = ir.Shape([*(static_shape(ids) or ()), 1])
        scatter = ir.node("ScatterND", [node.inputs[0], column, node.inputs[2]], {"reduction": "add"})
        source = _input(node, 1).producer()
        replace_nodes_and_values(model.graph, node, [node], [columns, scatter], [old], scatter.outputs)
        remove_unread(model.graph, source)


def _input(node: ir.Node, index: int) -> ir.Value:
    value = node.inputs[index]
    assert value is not None
    return value


def _row_indices(node: ir.Node) -> ir.Value | None:
    """Return the indices of rows, [K], that a scatter of elements adds; None if it does anything else."""
    if node.op_type != "ScatterElements" or not is_standard(node):
        return None
    axis, reduction = node.attributes.get("axis"), node.attributes.get("reduction")
    if (axis is not None and axis.as_int() != 0) or reduction is None or reduction.as_string() != "add":
        return None
    table, indices, rows = (_input(node, i) for i in range(3))
    shape, of_rows = static_shape(table), static_shape(rows)
    if not shape or not of_rows or shape[1:] != of_rows[1:] or len(shape) < 2 or table.dtype not in _DTYPES:
        return None
    expand = indices.producer()
    unsqueeze = None if expand is None or expand.op_type != "Expand" else _input(expand, 0).producer()
    if unsqueeze is None or unsqueeze.op_type != "Unsqueeze":
        return None
    ids, axes = _input(unsqueeze, 0), _input(unsqueeze, 1).const_value
    fits = static_shape(ids) == of_rows[:1] and axes is not None and axes.numpy().tolist() == [*range(1, len(shape))]
    return ids if fits else None

"""Scalars of the rank of the tensors that they are combined with, where onnxruntime needs that to be fast."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Final

import numpy as np
import onnx
from onnx import numpy_helper

from caffe2_frontend.interop.operators import ARITHMETIC

# Elements from which on the time that is saved is more than that of a node.
_MANY: Final = 1024


def widen_scalars(model: onnx.ModelProto) -> None:
    """Reshape the scalars that are combined with a large input whose last dim is 1, each once for a rank, in place.

    ``Mul(w [M, C, 1, 1], lr [])`` => ``Mul(w, Reshape(lr, [1, 1, 1, 1]))``

    onnxruntime 1.32: without it the elements are computed one by one, 70 times slower. Weights of convolutions with
    kernels of 1 are such inputs in training, where they and their gradients are multiplied by rates and decays.
    """
    graph = model.graph
    if not any(_is_slow(_sizes(value)) for value in graph.input):
        return
    sizes = {value.name: _sizes(value) for value in (*graph.input, *graph.value_info, *graph.output)}
    sizes.update({tensor.name: tuple(tensor.dims) for tensor in graph.initializer})
    wide: dict[tuple[str, int], str] = {}
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        if node.op_type in ARITHMETIC and not node.domain:
            for index, name in enumerate(node.input):
                tensor, scalar = sizes.get(node.input[1 - index]), sizes.get(name)
                if scalar is not None and prod(scalar) == 1 and _is_slow(tensor, len(scalar)):
                    node.input[index] = _widened(graph, nodes, wide, name, len(tensor or ()))
        nodes.append(node)
    if wide:
        copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(copies)


def _widened(
    graph: onnx.GraphProto, nodes: list[onnx.NodeProto], wide: dict[tuple[str, int], str], name: str, rank: int
) -> str:
    """Return the name of a scalar of a rank, for which a node is added if there is none."""
    key = (name, rank)
    if key not in wide:
        wide[key] = f"{name}/wide_{rank}"
        shape = f"{wide[key]}/shape"
        graph.initializer.append(numpy_helper.from_array(np.ones(rank, np.int64), shape))
        nodes.append(onnx.NodeProto(op_type="Reshape", input=[name, shape], output=[wide[key]], name=wide[key]))
    return wide[key]


def _is_slow(tensor: Iterable[int] | None, rank: int = 0) -> bool:
    """Whether elements of a tensor of these dims are computed one by one with a scalar of a rank."""
    dims = tuple(tensor or ())
    return len(dims) > rank and dims[-1] == 1 and prod(dims) >= _MANY


def _sizes(value: onnx.ValueInfoProto) -> tuple[int, ...] | None:
    """Return the dims of a value; None if not all are known."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape") or not all(dim.HasField("dim_value") for dim in tensor.shape.dim):
        return None
    return tuple(dim.dim_value for dim in tensor.shape.dim)

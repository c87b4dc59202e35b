"""Inputs of ONNX models that may be left out, because an initializer of the same name is their default."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import onnx

# The first version of ONNX's file format in which an initializer need not be an input: one that is, is meant as one.
SEPARATE_INITIALIZERS: Final = 4


def inputs_with_defaults(model: onnx.ModelProto) -> tuple[str, ...]:
    """Return the names of the inputs that have a default, in the graph's order."""
    graph = model.graph
    filled = {tensor.name for tensor in graph.initializer}.union(t.values.name for t in graph.sparse_initializer)
    return tuple(value.name for value in graph.input if value.name in filled)


def without_defaults(model: onnx.ModelProto, names: Collection[str]) -> onnx.ModelProto:
    """Return the model with no default for these inputs, so that nothing takes it for a constant; the same if none has.

    A run must then give them.
    """
    dropped = set(names).intersection(inputs_with_defaults(model))
    if not dropped:
        return model
    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    plain.ir_version = max(model.ir_version, SEPARATE_INITIALIZERS)
    graph = plain.graph
    for index in reversed(range(len(graph.initializer))):
        if graph.initializer[index].name in dropped:
            del graph.initializer[index]
    for index in reversed(range(len(graph.sparse_initializer))):
        if graph.sparse_initializer[index].values.name in dropped:
            del graph.sparse_initializer[index]
    return plain

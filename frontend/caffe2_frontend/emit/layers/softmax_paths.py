"""The paths of a hierarchical softmax to its words, as its operators read them from an argument."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import numpy as np
import onnx_ir as ir

from caffe2_bridge.wire import WireError
from caffe2_frontend.emit.layers.softmax_tree import PathStep, read_paths
from caffe2_frontend.emit.shapes import cast, unsqueeze
from caffe2_frontend.lowering.op import Op, Value

# The size of the padded class matrix beyond which the message is taken for corrupt.
_MAX_CLASSES: Final = 1 << 26
_Tree = TypeVar("_Tree")


def read_message(op: Op, name: str, read: Callable[[bytes], _Tree]) -> _Tree:
    """Decode the message in a string argument."""
    raw = op.args.raw(name)
    try:
        return read(raw.s if raw is not None else b"")
    except WireError as error:
        op.unsupported(f"argument {name!r} must hold a serialized tree: {error}", code="invalid-argument")


def read_hierarchy(op: Op) -> dict[int, tuple[PathStep, ...]]:
    """Return the path to each word, by ascending id, from the argument ``hierarchy``."""
    paths = read_message(op, "hierarchy", read_paths)
    steps = [step for path in paths.values() for step in path]
    if not steps:
        op.unsupported(
            "the HierarchyProto in argument 'hierarchy' must have at least one path", code="invalid-argument"
        )
    count = len({(step.index, step.length) for step in steps})
    if max(step.length for step in steps) * count > _MAX_CLASSES or any(not _is_valid(step) for step in steps):
        op.unsupported(
            "every step in argument 'hierarchy' must have an index and a target within its node",
            code="invalid-argument",
        )
    return paths


def _is_valid(step: PathStep) -> bool:
    """Whether the step's target is one of its node's classes."""
    return step.index >= 0 and 0 <= step.target < step.length


def word_indices(op: Op, words: Sequence[int], labels: Value) -> Value:
    """Return the indices of the labels [N] in ``words``."""
    if list(words) == list(range(len(words))):
        return labels
    same = op.emit("Equal", unsqueeze(op, labels, [1]), op.const(words, np.int64))
    return op.emit("ArgMax", cast(op, same, ir.DataType.INT32), axis=1, keepdims=0)

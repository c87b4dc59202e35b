"""Fold constants and known shapes, so that axes and sizes can become arguments of Caffe2 operators."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Iterator
from typing import ClassVar, Final

import numpy as np
import onnx_ir as ir

from caffe2_backend.passes.flatten import infer, type_formals
from caffe2_backend.state import Import
from caffe2_bridge.passes import InPlacePass
from caffe2_frontend.interop.bodies import all_nodes
from caffe2_frontend.interop.domains import is_standard, standard_type
from caffe2_frontend.interop.operators import LOOPS, RANDOM, SIZED_BY_CONTENTS, UNENDING

logger = logging.getLogger(__name__)

_LARGEST: Final = 1024  # elements of what is folded: shapes, lists of axes, conditions, but not weights
# Operators that are not folded although their operands are constants.
_NEVER_FOLDED: Final = RANDOM | LOOPS | {"Constant", "DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear"}


class FoldConstants(InPlacePass[Import]):
    """Fold what small constants and known shapes determine, and select the branch of an If with a constant condition.

    Operands that Caffe2 takes as arguments are often such: a list of axes in a scripted body is an Unsqueeze of a
    constant. A selected branch and a folded shape make further shapes known: folding and inference take turns until
    neither finds more. Where operators may be carried, the model stays unchanged.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"inlined", "opset", "expanded"})
    ensures: ClassVar[frozenset[str]] = frozenset({"folded"})

    def __call__(self, state: Import) -> None:
        """Fold the constants of the model."""
        if state.options.carries_nodes:
            logger.debug("constants not folded: operators may be carried")
            return
        model = state.model
        _keep_saturation(model)
        _fold(model)
        while _foldable(model):
            before = _size(model)
            _fold(model)
            if _size(model) == before:
                break


def _keep_saturation(model: ir.Model) -> None:
    """Replace each CastLike that does not saturate by a Cast: the folder would drop the attribute."""
    for node in list(_nodes(model)):
        like = node.inputs[1] if node.op_type == "CastLike" and is_standard(node) else None
        if like is None or like.dtype is None or node.attributes.get_int("saturate", 1) != 0:
            continue
        attributes = [ir.AttrInt64("saturate", 0), ir.AttrInt64("to", int(like.dtype))]
        made = ir.Node("", "Cast", [node.inputs[0]], attributes)
        made.outputs[0].dtype, made.outputs[0].shape = like.dtype, node.outputs[0].shape
        assert node.graph is not None
        ir.convenience.replace_nodes_and_values(node.graph, node, [node], [made], node.outputs, made.outputs)


def _foldable(model: ir.Model) -> int:
    """Complete types and shapes, and count the nodes that these and constants determine."""
    if type_formals(model) or any(_is_unknown(node) for node in _nodes(model)):
        infer(model)
    return _fold_sizes(model) + sum(_is_determined(node) for node in _nodes(model))


def _is_unknown(node: ir.Node) -> bool:
    """Whether the shape of an output is unknown, or known in part."""
    return any(value.name and (value.shape is None or not value.shape.is_static()) for value in node.outputs)


def _fold_sizes(model: ir.Model) -> int:
    """Replace each Size of a value of known dims, which int64 counts, by a constant. Return how many there were."""
    sizes = [
        (node, math.prod(value.shape.numpy()))
        for node in _nodes(model)
        if node.op_type == "Size" and is_standard(node)
        for value in node.inputs
        if value is not None and value.shape is not None and value.shape.is_static()
    ]
    counted = [(node, size) for node, size in sizes if size <= np.iinfo(np.int64).max]
    for node, size in counted:
        count = ir.Tensor(np.array(size, np.int64))
        made = ir.Node("", "Constant", [], [ir.AttrTensor("value", count)])
        made.outputs[0].dtype, made.outputs[0].shape = ir.DataType.INT64, ir.Shape(())
        assert node.graph is not None
        ir.convenience.replace_nodes_and_values(node.graph, node, [node], [made], node.outputs, made.outputs)
    return len(counted)


def _is_determined(node: ir.Node) -> bool:
    """Whether the operands of a node determine its output, or which of its branches is taken."""
    if not is_standard(node) or node.op_type in _NEVER_FOLDED:
        return False
    operands = [value for value in node.inputs if value is not None]
    if node.op_type == "Shape":
        return all(value.shape is not None and value.shape.is_static() for value in operands)
    return bool(operands) and all(_is_small_constant(value) for value in operands)


def _is_small_constant(value: ir.Value) -> bool:
    known = value.const_value
    producer = value.producer()
    if known is None and producer is not None and standard_type(producer) == "Constant":
        return True
    return known is not None and known.size <= _LARGEST


def _size(model: ir.Model) -> int:
    """Return how many nodes a model has that are not constants."""
    return sum(standard_type(node) != "Constant" for node in _nodes(model))


def _nodes(model: ir.Model) -> Iterator[ir.Node]:
    return all_nodes(model.graph)


def _fold(model: ir.Model) -> None:
    from caffe2_backend.passes.folder import Folder

    with _quiet():
        try:
            Folder(
                shape_inference=True,
                input_size_limit=_LARGEST,
                output_size_limit=_LARGEST,
                should_fold=_should_fold,
            )(model)
        except RuntimeError:  # of an invalid node: its converter reports what is wrong
            logger.debug("constant folding stopped", exc_info=True)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the folder's warnings of what it leaves unfolded: the converters report what is wrong with it."""
    folder = logging.getLogger("onnxscript")
    level = folder.level
    folder.setLevel(logging.ERROR)
    try:
        yield
    finally:
        folder.setLevel(level)


def _should_fold(node: ir.Node) -> bool | None:
    """Whether to fold a node whose operands are constants; None leaves the decision to the folder.

    False for nodes that output sequences or optional values, or more than is stored, and for fills unless they are
    small: the folder leaves all fills, and what is computed from one, such as the pads of PyTorch's ``F.pad``.
    """
    if node.op_type == "ConstantOfShape":
        operand = node.inputs[0]
        dims = (
            [-1] if operand is None or operand.const_value is None else operand.const_value.numpy().reshape(-1).tolist()
        )
        return min(dims, default=0) >= 0 and math.prod(dims) <= _LARGEST
    is_unsafe = node.op_type == "Optional" or node.op_type in UNENDING
    return False if node.op_type.startswith("Sequence") or is_unsafe or _is_large(node) else None


def _is_large(node: ir.Node) -> bool:
    """Whether the outputs would not be stored: the folder looks at their sizes after it has computed them."""
    given = sum(value.const_value.size for value in node.inputs if value is not None and value.const_value is not None)
    shapes = (value.shape for value in node.outputs)
    known = [math.prod(shape.numpy()) for shape in shapes if shape is not None and shape.is_static()]
    if len(known) < len(node.outputs) and node.op_type in SIZED_BY_CONTENTS:
        return True
    return sum(known) > max(given, _LARGEST)

"""Fold constants and known shapes, so that axes and sizes can become arguments of Caffe2 operators."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import ClassVar, Final

import onnx_ir as ir

from caffe2_backend.passes.flatten import type_formals
from caffe2_backend.state import Import
from caffe2_bridge.passes import InPlacePass

logger = logging.getLogger(__name__)

_LARGEST: Final = 1024  # elements of what is folded: shapes, lists of axes, conditions, but not weights


class FoldConstants(InPlacePass[Import]):
    """Fold what small constants and known shapes determine, and select the branch of an If with a constant condition.

    Operands that Caffe2 takes as arguments are often such: a list of axes in a scripted body is an Unsqueeze of a
    constant. Where operators may be carried, the model stays unchanged.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"inlined", "opset", "expanded"})
    ensures: ClassVar[frozenset[str]] = frozenset({"folded"})

    def __call__(self, state: Import) -> None:
        """Fold the constants of the model."""
        if state.options.carries_nodes:
            logger.debug("constants not folded: operators may be carried")
            return
        _fold(state.model)
        while type_formals(state.model):
            _fold(state.model)


def _fold(model: ir.Model) -> None:
    from onnxscript.optimizer import fold_constants

    with _quiet():
        try:
            fold_constants(
                model,
                onnx_shape_inference=True,
                input_size_limit=_LARGEST,
                output_size_limit=_LARGEST,
                should_fold=_is_of_tensors,
            )
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


def _is_of_tensors(node: ir.Node) -> bool | None:
    """False for nodes that output sequences or optional values; None leaves the decision to the folder."""
    return False if node.op_type.startswith("Sequence") or node.op_type == "Optional" else None

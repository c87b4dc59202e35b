"""What follows from constants and known shapes, computed now: axes and sizes, which Caffe2 takes as arguments."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import ClassVar, Final

import onnx_ir as ir

from caffe2_backend.passes.flatten import type_formals
from caffe2_backend.state import Import

_LARGEST: Final = 1024  # of what is computed: shapes, lists of axes, conditions; weights stay as they are


class FoldConstants:
    """Compute what small constants and known shapes determine, and choose the branch of an If whose condition is known.

    Operands that Caffe2 takes as arguments are often such: a list of axes in a scripted body is an Unsqueeze of a
    constant. Carried models stay as they are.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"inlined", "opset", "expanded"})
    ensures: ClassVar[frozenset[str]] = frozenset({"folded"})

    def __call__(self, state: Import) -> Import:
        """Fold; the model is this import's own, and is changed in place."""
        if state.foreign == "carry":
            return state
        _fold(state.model)
        while type_formals(state.model):
            _fold(state.model)
        return state


def _fold(model: ir.Model) -> None:
    from onnxscript.optimizer import fold_constants

    with (
        _quiet(),
        contextlib.suppress(RuntimeError),
    ):  # a node that is not as ONNX has it: its converter says what is wrong
        fold_constants(
            model,
            onnx_shape_inference=True,
            input_size_limit=_LARGEST,
            output_size_limit=_LARGEST,
            should_fold=_is_of_tensors,
        )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What the folder leaves as it is, is no news: the converters say what is wrong with it, if anything is."""
    logger = logging.getLogger("onnxscript")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _is_of_tensors(node: ir.Node) -> bool | None:
    """False for what gives sequences or optional values, else None: the folder decides."""
    return False if node.op_type.startswith("Sequence") or node.op_type == "Optional" else None

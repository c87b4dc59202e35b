"""What can be computed now."""

from __future__ import annotations

from typing import ClassVar, Final

from caffe2_backend.state import Import

_LARGEST: Final = 1024  # of what is computed: shapes, lists of axes, conditions; weights stay as they are


class FoldConstants:
    """Compute what depends on constants alone, and choose the branch of an If whose condition is known.

    Operands that Caffe2 takes as arguments are often such: a list of axes in a scripted body is an Unsqueeze of a
    constant. Carried models stay as they are.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"inlined", "opset"})
    ensures: ClassVar[frozenset[str]] = frozenset({"folded"})

    def __call__(self, state: Import) -> Import:
        """Fold; the model is this import's own, and is changed in place."""
        if state.foreign == "carry":
            return state
        from onnxscript.optimizer import fold_constants

        fold_constants(
            state.model,
            onnx_shape_inference=False,
            input_size_limit=_LARGEST,
            output_size_limit=_LARGEST,
            should_fold=lambda node: False if node.op_type == "SequenceEmpty" else None,
        )
        return state

"""Gradients of operators."""

from __future__ import annotations

from collections.abc import Sequence

from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.gradients import BlobGradient, SparseGradient, get_gradient_for_op
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef
from caffe2_bridge.schemas import operator_schema

__all__ = ["GradientWrapper", "get_gradient_defs"]


class GradientWrapper:
    """The gradient of a blob: a dense one's name, the names of a sparse one's indices and values, or none."""

    def __init__(self, dense: str = "", indices: str = "", values: str = "") -> None:
        self._dense = dense
        self._indices = indices
        self._values = values

    @property
    def dense(self) -> str:
        """The name of a dense gradient."""
        return self._dense

    @dense.setter
    def dense(self, name: object) -> None:
        self._dense = str(name)

    @property
    def indices(self) -> str:
        """The name of a sparse gradient's indices."""
        return self._indices

    @indices.setter
    def indices(self, name: object) -> None:
        self._indices = str(name)

    @property
    def values(self) -> str:
        """The name of a sparse gradient's values."""
        return self._values

    @values.setter
    def values(self, name: object) -> None:
        self._values = str(name)

    def is_sparse(self) -> bool:
        """Whether the gradient is sparse."""
        return bool(self._indices or self._values)

    def is_dense(self) -> bool:
        """Whether the gradient is dense."""
        return bool(self._dense)

    def is_empty(self) -> bool:
        """Whether there is none."""
        return not self.is_sparse() and not self.is_dense()


def get_gradient_defs(op_def: bytes, g_output: Sequence[GradientWrapper]) -> tuple[list[bytes], list[GradientWrapper]]:
    """Return the gradient operators of an operator, and the gradients of its inputs.

    Raises GradientError if the operator cannot be differentiated, RunError if its schema refuses it.
    """
    op = OperatorDef.FromString(op_def)
    schema = operator_schema(op.type)
    if schema is not None and not schema.accepts_counts(len(op.input), len(op.output)):
        raise RunError(f"{op.type} did not pass schema checking: {len(op.input)} inputs and {len(op.output)} outputs")
    found = get_gradient_for_op(op, [_unwrapped(gradient) for gradient in g_output])
    return [op.SerializeToString() for op in found.operators], [_wrapped(gradient) for gradient in found.g_input]


def _unwrapped(gradient: GradientWrapper) -> BlobGradient:
    if gradient.is_sparse():
        return SparseGradient(gradient.indices, gradient.values)
    return gradient.dense or None


def _wrapped(gradient: BlobGradient) -> GradientWrapper:
    if isinstance(gradient, SparseGradient):
        return GradientWrapper(indices=gradient.indices, values=gradient.values)
    return GradientWrapper(dense=gradient or "")

"""The interface of gradient makers: a forward operator and the gradients of its outputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.gradients.operator_maker import Value, make_operator
from caffe2_bridge.netdef.views import Args, ArgumentError
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef

# While an operator is differentiated, the names of operands may have a mark as suffix. It distinguishes two operands of
# one name: the second occurrence of an input, and the output of an operator that works in place. NUL cannot occur in
# the name of a blob.
MARK: Final = "\0"
_MARKED: Final = re.compile(f"{MARK}[0-9a-z]+")


def plain(name: str) -> str:
    """Remove the marks from a name."""
    return _MARKED.sub("", name) if MARK in name else name


class GradientError(BridgeError):
    """An operator or net cannot be differentiated. The message names the operator and the reason."""


class SparseGradient(NamedTuple):
    """A sparse gradient: the names of the blobs with the indices of rows and with the gradients of these rows."""

    indices: str
    values: str


BlobGradient: TypeAlias = str | SparseGradient | None


class OpGradient(NamedTuple):
    """The gradient of one operator: its operators, and the gradient of each input (dense, sparse or None)."""

    operators: list[OperatorDef]
    g_input: list[BlobGradient]


Differentiate: TypeAlias = Callable[[OperatorDef, Sequence[BlobGradient]], OpGradient]


class Forward:
    """A forward operator to differentiate: inputs ``x``, outputs ``y``, and their gradients ``dx`` and ``dy``.

    Attributes:
        proto: the operator.
        g_output: the gradient of each output.
        differentiate: differentiates the operators of its bodies.
        operators: the gradient operators emitted so far.
        g_input: the gradient of each input, as set so far.
    """

    def __init__(self, op: OperatorDef, g_output: Sequence[BlobGradient], differentiate: Differentiate) -> None:
        self.proto = op
        self.type = op.type
        self.g_output = g_output
        self.differentiate = differentiate
        self.operators: list[OperatorDef] = []
        self.g_input: list[BlobGradient] = [None] * len(op.input)
        self._args: Args | None = None

    @property
    def args(self) -> Args:
        """The arguments."""
        if self._args is None:
            try:
                self._args = Args(self.proto.arg)
            except ArgumentError as error:
                raise self.error(str(error)) from None
        return self._args

    @property
    def inputs(self) -> list[str]:
        """Names of all inputs."""
        return list(self.proto.input)

    @property
    def outputs(self) -> list[str]:
        """Names of all outputs."""
        return list(self.proto.output)

    def error(self, reason: str) -> GradientError:
        """Return the error to raise if the operator cannot be differentiated."""
        name = f" ({self.proto.name})" if self.proto.name else ""
        return GradientError(f"gradient of {self.type}{name}: {reason}")

    def x(self, index: int) -> str:
        """Return the name of an input. Raises GradientError if the operator does not have it."""
        if index >= len(self.proto.input):
            raise self.error(f"the gradient needs input {index}, which the operator does not have")
        return self.proto.input[index]

    def y(self, index: int) -> str:
        """Return the name of an output. Raises GradientError if the operator does not have it."""
        if index >= len(self.proto.output):
            raise self.error(f"the gradient needs output {index}, which the operator does not have")
        return self.proto.output[index]

    def in_place(self, x: int, y: int) -> bool:
        """Return whether an input and an output are the same blob."""
        return plain(self.x(x)) == plain(self.y(y))

    def has_dy(self, index: int) -> bool:
        """Return whether an output has a gradient, dense or sparse."""
        return self.g_output[index] is not None

    def dy(self, index: int) -> str:
        """Return the name of the dense gradient of an output. Raises GradientError if it has none."""
        name = self.y(index)
        gradient = self.g_output[index]
        if isinstance(gradient, SparseGradient):
            raise self.error(f"the gradient of output {plain(name)!r} must be dense, not sparse")
        if gradient is None:
            raise self.error(f"the gradient of output {plain(name)!r} is missing")
        return gradient

    def dx(self, index: int) -> str:
        """Give an input a dense gradient with the default name, which is returned."""
        return self.set_dense(index, f"{self.x(index)}_grad")

    def set_dense(self, index: int, name: str) -> str:
        """Give an input the dense gradient ``name``, which is returned."""
        self.x(index)
        self.g_input[index] = name
        return name

    def set_sparse(self, index: int, indices: str, values: str) -> str:
        """Give an input a sparse gradient. Returns the name of its values."""
        self.x(index)
        self.g_input[index] = SparseGradient(indices, values)
        return values

    def emit(self, op_type: str, inputs: Sequence[str], outputs: Sequence[str], **arguments: Value) -> None:
        """Emit a gradient operator."""
        op = make_operator(op_type, inputs, outputs, **arguments)
        op.is_gradient_op = True
        self.operators.append(op)

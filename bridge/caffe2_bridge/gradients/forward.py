"""What a gradient maker sees: a forward operator and the gradients of its outputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.gradients.operators import Value, make_operator
from caffe2_bridge.netdef.views import Args, ArgumentError
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef

# While a gradient is made, names of operands may carry a mark, so that two operands of one name can be told apart: the
# second reading of a blob, and the output of an operator that works in place. No blob's name has it.
MARK: Final = "\0"
_MARKED: Final = re.compile(f"{MARK}[0-9a-z]+")


def plain(name: str) -> str:
    """A name without marks."""
    return _MARKED.sub("", name) if MARK in name else name


class GradientError(BridgeError):
    """A gradient cannot be made. Names the operator, and says why."""


class SparseGradient(NamedTuple):
    """A sparse gradient: the names of two blobs, the rows that have a gradient and their gradients."""

    indices: str
    values: str


BlobGradient: TypeAlias = str | SparseGradient | None


class OpGradient(NamedTuple):
    """The gradient of one operator: operators, and by input its gradient (a name, a slice, or none)."""

    operators: list[OperatorDef]
    g_input: list[BlobGradient]


Differentiate: TypeAlias = Callable[[OperatorDef, Sequence[BlobGradient]], OpGradient]


class Forward:
    """An operator whose gradient is made. ``x`` are its inputs, ``y`` its outputs, ``dx`` and ``dy`` their gradients.

    ``differentiate`` makes the gradients of operators inside of its bodies. What a maker emits is in ``operators``,
    what it says of the inputs in ``g_input``.
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
        """The error to raise where the gradient cannot be made."""
        name = f" ({self.proto.name})" if self.proto.name else ""
        return GradientError(f"gradient of {self.type}{name}: {reason}")

    def x(self, index: int) -> str:
        """The name of an input; an error where the operator has none there."""
        if index >= len(self.proto.input):
            raise self.error(f"there is no input {index}, which the gradient needs")
        return self.proto.input[index]

    def y(self, index: int) -> str:
        """The name of an output; an error where the operator has none there."""
        if index >= len(self.proto.output):
            raise self.error(f"there is no output {index}, which the gradient needs")
        return self.proto.output[index]

    def in_place(self, x: int, y: int) -> bool:
        """Whether an input and an output are one blob."""
        return plain(self.x(x)) == plain(self.y(y))

    def has_dy(self, index: int) -> bool:
        """Whether an output has a gradient, dense or sparse."""
        return self.g_output[index] is not None

    def dy(self, index: int) -> str:
        """The name of the dense gradient of an output; an error where it has none."""
        name = self.y(index)
        gradient = self.g_output[index]
        if isinstance(gradient, SparseGradient):
            raise self.error(f"the gradient of output {plain(name)!r} is sparse; a dense one is needed")
        if gradient is None:
            raise self.error(f"the gradient of output {plain(name)!r} is not given")
        return gradient

    def dx(self, index: int) -> str:
        """The name for the dense gradient of an input, which from now on has it."""
        return self.set_dense(index, f"{self.x(index)}_grad")

    def set_dense(self, index: int, name: str) -> str:
        """Say that ``name`` is the gradient of an input."""
        self.x(index)
        self.g_input[index] = name
        return name

    def set_sparse(self, index: int, indices: str, values: str) -> str:
        """Say that an input has a sparse gradient; the name of its values."""
        self.x(index)
        self.g_input[index] = SparseGradient(indices, values)
        return values

    def emit(self, op_type: str, inputs: Sequence[str], outputs: Sequence[str], **arguments: Value) -> None:
        """Add an operator to the gradient."""
        op = make_operator(op_type, inputs, outputs, **arguments)
        op.is_gradient_op = True
        self.operators.append(op)

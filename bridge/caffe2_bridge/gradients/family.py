"""Families of gradient makers, and the patterns by which most of them are defined."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from caffe2_bridge import registry
from caffe2_bridge.gradients.forward import Forward

Maker = Callable[[Forward], None]


@dataclass(frozen=True, slots=True)
class Rule:
    """How to differentiate an operator type.

    Attributes:
        make: emits the gradient operators.
        copies_arguments: whether the arguments of the forward operator are appended to those of each gradient operator.
        copies_all: whether its engine and device option are copied to each gradient operator.
    """

    make: Maker
    copies_arguments: bool = True
    copies_all: bool = True

    def __str__(self) -> str:
        return str(getattr(self.make, "__qualname__", self.make))


class Family(registry.Family[Rule]):
    """A named set of gradient makers, in a file of its own."""

    def differentiates(
        self, *op_types: str, copies_arguments: bool = True, copies_all: bool = True
    ) -> Callable[[Maker], Maker]:
        """Register a gradient maker for operator types; see :class:`Rule` for the options."""

        def register(make: Maker) -> Maker:
            self.add(Rule(make, copies_arguments, copies_all), *op_types)
            return make

        return register

    def pattern(self, pattern: str, *types: str, **others: str) -> None:
        """Register operator types whose gradient is one operator.

        Args:
            pattern: the signature of the gradient operator, such as ``X0 dY0 -> dX0``. ``X0`` and ``Y0`` are the first
                input and output of the forward operator, ``dX0`` and ``dY0`` their gradients, ``X*`` all inputs,
                ``X1*`` all inputs from the second on, and ``X1?`` the second input if it exists.
            types: operator types whose gradient operator is ``<type>Gradient``.
            others: gradient operator by operator type.
        """
        inputs, outputs = ([_Operand.parse(text) for text in side.split()] for side in pattern.split("->"))
        for op_type, gradient in (*((name, f"{name}Gradient") for name in types), *others.items()):
            self.add(Rule(_Pattern(gradient, inputs, outputs)), op_type)

    def constant(self, *types: str) -> None:
        """Register operator types through which no gradient flows."""
        self.add(Rule(_no_gradient), *types)


def _no_gradient(_: Forward) -> None:
    """Emit nothing."""


_OPERAND: Final = re.compile(r"(d?)([XY])(\d*)([*?]?)")


@dataclass(frozen=True, slots=True)
class _Operand:
    """One operand of a pattern."""

    gradient: bool
    is_input: bool
    index: int
    many: bool
    optional: bool

    @classmethod
    def parse(cls, text: str) -> _Operand:
        found = _OPERAND.fullmatch(text)
        if not found:
            raise ValueError(f"operand {text!r} of the pattern is not like dX0, Y1, X* or X1?")
        gradient, kind, index, how = found.groups()
        return cls(bool(gradient), kind == "X", int(index or 0), how == "*", how == "?")

    def names(self, op: Forward) -> Iterator[str]:
        count = len(op.proto.input if self.is_input else op.proto.output)
        stop = count if self.many else self.index + 1
        if self.optional and self.index >= count:
            return
        name = (op.dx if self.is_input else op.dy) if self.gradient else (op.x if self.is_input else op.y)
        for index in range(self.index, stop):
            yield name(index)


@dataclass(frozen=True, slots=True)
class _Pattern:
    """The gradient maker of a pattern."""

    type: str
    inputs: list[_Operand]
    outputs: list[_Operand]

    def __str__(self) -> str:
        return f"the pattern of {self.type}"

    def __call__(self, op: Forward) -> None:
        inputs, outputs = (
            [name for operand in side for name in operand.names(op)] for side in (self.inputs, self.outputs)
        )
        op.emit(self.type, inputs, outputs)

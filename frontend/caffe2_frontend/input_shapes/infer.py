"""Infer the shapes of a net's inputs: apply signatures to a fixed point, then assume what is still open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from caffe2_bridge.netdef.views import ArgumentError, OpView
from caffe2_bridge.operators import infer_shapes, is_described
from caffe2_bridge.operators.parameters import is_parameter_operand
from caffe2_frontend.input_shapes.known_shapes import KnownShapes
from caffe2_frontend.interop.types import Dim
from caffe2_frontend.lowering.family import Expectation


@dataclass(frozen=True)
class InferredShapes:
    """The result of the inference.

    Attributes:
        shapes: by input, its shape as far as it is known; inputs of unknown rank are missing.
        assumed: for inputs whose rank is only assumed, the type of the operator that usually has it; parameters, which
            have hardly another, are left out.
    """

    shapes: Mapping[str, tuple[Dim, ...]]
    assumed: Mapping[str, str]


def infer_input_shapes(
    ops: Sequence[OpView],
    inputs: Sequence[str],
    known: Mapping[str, tuple[Dim, ...]],
    expectations: Mapping[str, Expectation],
) -> InferredShapes:
    """Infer the shapes of inputs.

    Args:
        ops: the operators of the net and of its bodies, in order; each blob is written once.
        inputs: the inputs of the net.
        known: the shapes of parameters, and of inputs that are described.
        expectations: by operator type, what it expects of its operands.
    """
    solver = _Solver([op for op in ops if not op.proto.domain and op.inputs and op.outputs], known)
    solver.settle()
    for op in solver.ops:
        expected = expectations.get(op.type)
        if expected is not None:
            solver.apply(_expect(expected), op)
    open_inputs = [name for name in inputs if solver.shapes.shape(name) is None]
    assumed: dict[str, str] = {}
    for op in solver.ops:
        if not open_inputs:
            break
        if is_described(op.type):
            solver.apply(_assume, op)
            found = [name for name in open_inputs if solver.shapes.shape(name) is not None]
            assumed.update((name, op.type) for name in found if not _is_parameter(op, name))
            open_inputs = [name for name in open_inputs if name not in found]
    shapes = {name: shape for name in inputs if (shape := solver.shapes.shape(name)) is not None}
    return InferredShapes(shapes, assumed)


def _is_parameter(op: OpView, name: str) -> bool:
    return any(is_parameter_operand(op, index) for index, operand in enumerate(op.inputs) if operand == name)


def _expect(expected: Expectation) -> Callable[[OpView, KnownShapes], None]:
    def apply(op: OpView, shapes: KnownShapes) -> None:
        for index, name in enumerate(op.inputs):
            with suppress(ArgumentError):  # reported when the operator is converted
                shape = expected(op, index).shape
                if shape is not None:
                    shapes.set_shape(name, shape)

    return apply


def _relate(op: OpView, shapes: KnownShapes, *, usual: bool = False) -> None:
    """Apply the signature of an operator."""
    inputs, outputs = ([shapes.shape(name) for name in names] for names in (op.inputs, op.outputs))
    found = infer_shapes(op, inputs, outputs, usual=usual)
    for name, shape in zip((*op.inputs, *op.outputs), found, strict=True):
        if shape is not None:
            shapes.set_shape(name, shape)


def _assume(op: OpView, shapes: KnownShapes) -> None:
    """Apply the signature of an operator, with what is only usual."""
    _relate(op, shapes, usual=True)


class _Solver:
    """Applies signatures to operators until nothing changes."""

    def __init__(self, ops: Sequence[OpView], known: Mapping[str, tuple[Dim, ...]]) -> None:
        self.ops = ops
        self.shapes = KnownShapes(known)
        self._touching: dict[str, list[int]] = {}
        for index, op in enumerate(ops):
            if is_described(op.type):
                for name in dict.fromkeys([*op.inputs, *op.outputs]):
                    self._touching.setdefault(name, []).append(index)

    def settle(self) -> None:
        """Apply the signature of every operator, and again where operands have changed."""
        for op in self.ops:
            if is_described(op.type):
                self._apply(_relate, op)
        self._propagate()

    def apply(self, rule: Callable[[OpView, KnownShapes], None], op: OpView) -> None:
        """Apply another rule to an operator, and then all signatures where operands have changed."""
        self._apply(rule, op)
        self._propagate()

    def _apply(self, rule: Callable[[OpView, KnownShapes], None], op: OpView) -> None:
        with suppress(ArgumentError):  # reported when the operator is converted
            rule(op, self.shapes)

    def _propagate(self) -> None:
        while self.shapes.changed:
            changed, self.shapes.changed = self.shapes.changed, set()
            for index in sorted({index for name in changed for index in self._touching.get(name, ())}):
                self._apply(_relate, self.ops[index])

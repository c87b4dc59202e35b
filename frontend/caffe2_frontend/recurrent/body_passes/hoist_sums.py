"""Moving sums over the steps out of a loop: weight gradients become one product over all rows of all steps.

A state that only adds a value in each step, ``s + f_t``, is a sum over the steps. Where ``f_t`` is a product over the
rows of a batch, ``A_t' B_t``, or a sum over them, the loop need not compute it: it returns A_t and B_t of all steps,
and one product over T * N rows follows. They are smaller than ``f_t``, and often stacked already.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, reshape_like
from caffe2_frontend.emit.reductions import reduce_axes
from caffe2_frontend.emit.shapes import reshape, size
from caffe2_frontend.emit.subgraphs import Body
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.recurrent.body_passes.hoist import made_inside, remove_dead_nodes, without_unused_rows

_MOST_ADDENDS: Final = 1024


@dataclass(frozen=True)
class _Term:
    """A part of a sum: ``left' right`` over the rows of matrices, or the sum of the rows of ``left``."""

    left: Value
    right: Value | None


@dataclass(frozen=True)
class HoistedSums:
    """Sums that left a body.

    Attributes:
        terms: for each sum of the original body the terms that left it.
        kept: for each the index of the state that holds what remains in the loop; None if nothing does.
        stacks: where the rows of each value of the terms are after the loop: an index of a stacked value.
        known: those that are known outside of the loop.
    """

    terms: Sequence[Sequence[_Term]]
    kept: Sequence[int | None]
    stacks: dict[Value, int]
    known: dict[Value, Value]

    def finish(self, op: Op, finals: Sequence[Value], stacks: Sequence[Value], like: Sequence[Value]) -> list[Value]:
        """Return the sums, in the shapes of the values ``like``, from the results of the loop."""
        results = []
        for terms, index, shape in zip(self.terms, self.kept, like, strict=True):
            parts = [reshape_like(op, self._total(op, term, stacks), shape) for term in terms]
            parts += [] if index is None else [finals[index]]
            results.append(add(op, *parts) if len(parts) > 1 else parts[0])
        return results

    def _total(self, op: Op, term: _Term, stacks: Sequence[Value]) -> Value:
        left = self._matrix(op, term.left, stacks)
        if term.right is None:
            return reduce_axes(op, "ReduceSum", left, [0])
        return op.emit("Gemm", left, self._matrix(op, term.right, stacks), transA=1)

    def _matrix(self, op: Op, value: Value, stacks: Sequence[Value]) -> Value:
        rows = self.known[value] if value in self.known else stacks[self.stacks[value]]
        return reshape(op, rows, [-1, size(op, rows, -1)])


def hoist_sums(op: Op, body: Body, first: int, *, known_only: bool = False) -> tuple[Body, HoistedSums]:
    """Remove sums from a body, whose states from index ``first`` on are sums.

    With ``known_only`` the loop returns no further rows: sums that need them stay.

    Returns the body without them, and what is needed to compute them after the loop.
    """
    hoisting = _Hoisting(op, body, known_only=known_only)
    terms: list[list[_Term]] = []
    left: list[tuple[int, Value]] = []
    kept: list[int | None] = []
    for index in range(first, len(body.states)):
        found, rest = hoisting.split(body.after[index], body.states[index])
        terms.append(found)
        kept.append(None if rest is None else first + len(left))
        if rest is not None:
            left.append((index, rest))
    indices = [*range(first), *(index for index, _ in left)]
    body = dataclasses.replace(
        body,
        initial=tuple(body.initial[i] for i in indices),
        states=tuple(body.states[i] for i in indices),
        after=(*body.after[:first], *(value for _, value in left)),
        stacked=(*body.stacked, *hoisting.stacked),
    )
    remove_dead_nodes(body)
    return without_unused_rows(body), HoistedSums(terms, kept, hoisting.indices, hoisting.known)


class _Hoisting:
    """The search for terms in one body, with the values that the loop must return for them."""

    def __init__(self, op: Op, body: Body, *, known_only: bool) -> None:
        self.op = op
        self.known_only = known_only
        self.body = body
        self.inside = made_inside(body)
        self.rows = dict(zip(body.rows, body.sequences, strict=True))
        self.indices = {self.source(value): i for i, value in reversed(list(enumerate(body.stacked)))}
        self.known: dict[Value, Value] = {}
        self.stacked: list[Value] = []

    def split(self, total: Value, state: Value) -> tuple[list[_Term], Value | None]:
        """Split ``state + f`` into terms that leave the loop, and the sum of the state with the others, if any."""
        node = total.producer()
        # Another reader of the state needs the sums so far, which do not exist any more once terms have left.
        if node is None or node.op_type != "Add" or state not in node.inputs or len(state.uses()) != 1:
            return [], total
        value = next((operand for operand in node.inputs if operand is not None and operand is not state), None)
        if value is None:
            return [], total
        terms: list[_Term] = []
        rest: list[Value] = []
        for addend in self.addends(value):
            term = self.term(addend)
            if term is None:
                rest.append(addend)
            else:
                terms.append(term)
        if not terms:
            return [], total
        return terms, add(self.body.op, state, *rest) if rest else None

    def addends(self, value: Value) -> list[Value]:
        """Return the values of one shape whose sum a value is; itself if many: n sums of twice a value are 2^n."""
        found: list[Value] = []
        waiting = [value]
        while waiting:
            part = waiting.pop()
            node = part.producer()
            operands = [] if node is None or part not in self.inside else [v for v in node.inputs if v is not None]
            if node is None or node.op_type not in ("Add", "Sum") or not _same_shapes([part, *operands]):
                found.append(part)
            else:
                waiting += reversed(operands)
            if len(found) + len(waiting) > _MOST_ADDENDS:
                return [value]
        return found

    def term(self, value: Value) -> _Term | None:
        """Return the term that a value is, apart from its shape; None if it is not one."""
        value = self.unshaped(value)
        node = value.producer()
        if node is None or value not in self.inside:
            return None
        operands = [operand for operand in node.inputs if operand is not None]
        if node.op_type == "Gemm" and _is_product_over_rows(node):
            left, right = operands
            sources = self.source(left), self.source(right)
            if not all(each in self.inside and each.dtype == ir.DataType.FLOAT for each in sources):
                return None
            # sum over t of x_t' y_t is one product of all rows: X' Y, at the price of keeping X and Y.
            if self.known_only and not all(each in self.indices or each in self.rows for each in sources):
                return None
            return _Term(self.stack(sources[0]), self.stack(sources[1]))
        if node.op_type == "ReduceSum" and self.is_sum_of_rows(node):
            source = self.source(operands[0])
            if source in self.indices or source in self.rows:
                return _Term(self.stack(source), None)
        return None

    def is_sum_of_rows(self, node: ir.Node) -> bool:
        """Whether a ReduceSum reduces all axes but the last."""
        operands = [operand for operand in node.inputs if operand is not None]
        axes = self.op.known(operands[1]) if len(operands) > 1 else None
        if axes is None or node.attributes.get_int("keepdims", 1) == 1:
            return False
        rank = self.op.rank(operands[0])
        return rank > 0 and sorted(int(axis) % rank for axis in axes) == list(range(rank - 1))

    def stack(self, value: Value) -> Value:
        """Have the rows of a value available after the loop."""
        if value in self.rows:
            self.known[value] = self.rows[value]
        elif value not in self.indices:
            self.indices[value] = len(self.body.stacked) + len(self.stacked)
            self.stacked.append(value)
        return value

    def unshaped(self, value: Value) -> Value:
        """Return the value before changes of its shape."""
        node = value.producer()
        while node is not None and node.op_type in ("Reshape", "Identity") and value in self.inside:
            assert node.inputs[0] is not None
            value = node.inputs[0]
            node = value.producer()
        return value

    def source(self, value: Value) -> Value:
        """Return the value before changes of its shape that keep its last dim, and so the rows of its matrix."""
        node = value.producer()
        while node is not None and value in self.inside and self.keeps_last_dim(node):
            assert node.inputs[0] is not None
            value = node.inputs[0]
            node = value.producer()
        return value

    def keeps_last_dim(self, node: ir.Node) -> bool:
        before, after = node.inputs[0], node.outputs[0]
        if before is None or before.shape is None or not before.shape:
            return False
        rank = len(before.shape)
        if node.op_type == "Identity":
            return True
        if node.op_type == "Flatten":
            return node.attributes.get_int("axis", 1) in (rank - 1, -1)
        if node.op_type in ("Squeeze", "Unsqueeze"):
            axes = self.op.known(node.inputs[1]) if len(node.inputs) > 1 and node.inputs[1] is not None else None
            last = self.op.rank(after if node.op_type == "Unsqueeze" else before) - 1
            return axes is not None and all(0 <= axis < last for axis in axes)
        if node.op_type != "Reshape" or after.shape is None or not after.shape:
            return False
        # The last dims must be known to be equal: then rows stay rows, whatever the dims before them become.
        width = after.shape[-1]
        return isinstance(width, int) and width > 0 and width == before.shape[-1]


def _same_shapes(values: Sequence[Value]) -> bool:
    """Whether values have one shape, known at conversion."""
    shapes = [value.shape for value in values]
    return all(shape is not None and shape.is_static() and shape == shapes[0] for shape in shapes)


def _is_product_over_rows(node: ir.Node) -> bool:
    attributes = node.attributes
    plain = attributes.get_int("transB", 0) == 0 and attributes.get_float("alpha", 1.0) == 1.0
    return len(node.inputs) == 2 and attributes.get_int("transA", 0) == 1 and plain

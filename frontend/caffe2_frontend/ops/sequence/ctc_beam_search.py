"""CTC prefix beam search, as a Loop over time in which all sequences of a batch go together.

At every step there are *slots* for prefixes, best first, of which the first ``width`` are the beam. A *candidate* of
the next step is a prefix of the beam, or one of those longer by one label. What Caffe2 keeps of candidates that are not
in the beam is asked for one step later at most, as the longer prefixes of the beam: so each slot has the probabilities
of those.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, mul, sub
from caffe2_frontend.emit.shapes import (
    Size,
    cast,
    indices,
    product,
    reshape,
    size,
    slice_axis,
    squeeze,
    unsqueeze,
    vector,
)
from caffe2_frontend.emit.subgraphs import loop
from caffe2_frontend.interop.types import FLOAT, INT64
from caffe2_frontend.lowering.op import Op, Value


@dataclass(frozen=True)
class _Slots:
    """Prefixes: labels [N, M, L] and length [N, M], and its probability, [N, M], -inf where a slot is empty.

    ``blank`` and ``label`` are its probabilities by how it ends, ``longer_blank`` and ``longer_label`` [N, M, C] those
    of the prefix with one more label. ``place`` orders the prefixes by their labels.
    """

    labels: Value
    length: Value
    score: Value
    blank: Value
    label: Value
    longer_blank: Value
    longer_label: Value
    place: Value


@dataclass(frozen=True)
class _Relations:
    """Between the prefixes of the beam, [N, M, M]: whether the second goes on from the first, by one label or by more.

    ``following`` is the second's label after the first.
    """

    parent: Value
    prefix: Value
    following: Value


@dataclass(frozen=True)
class _Candidates:
    """Probabilities of the beam's prefixes, [N, M], and of longer ones, [N, M, C], and which of them there are."""

    blank: Value
    label: Value
    exists: Value
    longer_blank: Value
    longer_label: Value
    longer_exists: Value


@dataclass(frozen=True)
class _Sizes:
    """How many slots, labels and steps there are, as vectors of one element where they are not known."""

    slots: int
    beam: int
    batch: Size
    classes: Size
    steps: Size

    def one(self, op: Op, value: Size) -> Value:
        """A size as a vector of one element."""
        return vector(op, [value])


def beam_search(
    op: Op, inputs: Value, running: Value, width: int, count: int, threshold: float
) -> tuple[Value, Value, Value]:
    """Search the best prefixes.

    Args:
        op: the operator under conversion.
        inputs: probabilities [T, N, C]; label 0 is the blank.
        running: which steps belong to the sequences, [T, N] bool.
        width: how many prefixes the beam has.
        count: how many prefixes are asked for.
        threshold: labels that are not more probable are left out, unless all are.

    Returns:
        Labels [N, count, T], lengths [N, count] and probabilities [N, count] of prefixes, the best first; lengths and
        probabilities are 0 where there are no more prefixes.
    """
    steps, batch, classes = (size(op, inputs, axis) for axis in range(3))
    sizes = _Sizes(max(width, count), width, batch, classes, steps)

    def step(inside: Op, states: list[Value], numbers: list[Value]) -> tuple[list[Value], list[Value]]:
        now, on = (inside.emit("Gather", v, numbers[0], axis=0) for v in (inputs, running))
        before = _Slots(*states)
        after = _step(inside, before, now, threshold, sizes)
        return [
            inside.emit("Where", unsqueeze(inside, on, range(1, inside.rank(old))), new, old)
            for old, new in zip(astuple_of(before), astuple_of(after), strict=True)
        ], []

    final, _ = loop(op, steps, None, astuple_of(_start(op, sizes)), step)
    slots = _Slots(*final)
    labels, length, score = (slice_axis(op, v, 1, 0, count) for v in (slots.labels, slots.length, slots.score))
    # A sequence without steps has no prefixes either.
    ran = op.emit("ReduceSum", cast(op, running, INT64), op.const([0], np.int64), keepdims=0)
    filled = op.emit("Greater", score, op.const(-np.inf, np.float32))
    filled = op.emit("And", filled, unsqueeze(op, op.emit("Cast", ran, to=int(ir.DataType.BOOL)), [1]))
    length = mul(op, length, cast(op, filled, INT64))
    return labels, length, op.emit("Where", filled, score, op.const(0.0, np.float32))


def astuple_of(slots: _Slots) -> tuple[Value, ...]:
    """The values of the slots, in their order."""
    return tuple(getattr(slots, name) for name in slots.__dataclass_fields__)


def _start(op: Op, sizes: _Sizes) -> _Slots:
    """One prefix, without labels, that is certain."""
    first = np.eye(1, sizes.slots, dtype=np.float32)
    by_slot = vector(op, [sizes.batch, sizes.slots])
    one = op.emit("Expand", op.const(first), by_slot)
    score = op.emit("Expand", op.const(np.where(first, first, -np.inf)), by_slot)
    zero = op.emit("Expand", op.const([[0]], np.int64), by_slot)
    labels = op.emit("Expand", op.const([[[0]]], np.int64), vector(op, [sizes.batch, sizes.slots, sizes.steps]))
    longer = op.emit("Expand", op.const([[[0]]], np.float32), vector(op, [sizes.batch, sizes.slots, sizes.classes]))
    return _Slots(labels, zero, score, one, mul(op, one, 0.0), longer, longer, zero)


def _step(op: Op, slots: _Slots, now: Value, threshold: float, sizes: _Sizes) -> _Slots:
    """The slots after a step whose probabilities are ``now``, [N, C]."""
    kept = op.emit("Greater", now, op.const(threshold, np.float32))
    some = op.emit("ReduceMax", cast(op, kept, INT64), op.const([1], np.int64), keepdims=1)
    kept = op.emit("Or", kept, op.emit("Equal", some, op.const(0, np.int64)))
    filled = op.emit("Greater", slots.score, op.const(-np.inf, np.float32))
    beam = op.emit("And", filled, op.const(np.arange(sizes.slots) < sizes.beam))
    end = op.emit("Max", sub(op, slots.length, 1), op.const(0, np.int64))
    last = squeeze(op, op.emit("GatherElements", slots.labels, unsqueeze(op, end, [2]), axis=2), [2])
    numbers = indices(op, sizes.classes)
    some_last = op.emit("Greater", last, op.const(0, np.int64))
    ends_in = op.emit("And", op.emit("Equal", numbers, unsqueeze(op, last, [2])), unsqueeze(op, some_last, [2]))
    related = _relations(op, slots, beam)
    found = _candidates(op, slots, (beam, last, ends_in), (now, kept, numbers), related)
    return _chosen(op, slots, beam, cast(op, ends_in, FLOAT), found, related, sizes)


def _relations(op: Op, slots: _Slots, beam: Value) -> _Relations:
    first, second = unsqueeze(op, slots.length, [2]), unsqueeze(op, slots.length, [1])
    places = indices(op, size(op, slots.labels, 2))
    within = op.emit("Less", places, unsqueeze(op, first, [3]))
    start = op.emit("Where", within, unsqueeze(op, slots.labels, [1]), op.const(0, np.int64))
    equal = cast(op, op.emit("Equal", start, unsqueeze(op, slots.labels, [2])), INT64)
    same = cast(op, op.emit("ReduceMin", equal, op.const([3], np.int64), keepdims=0), ir.DataType.BOOL)
    both = op.emit("And", unsqueeze(op, beam, [2]), unsqueeze(op, beam, [1]))
    prefix = op.emit("And", op.emit("And", same, both), op.emit("Less", first, second))
    parent = op.emit("And", prefix, op.emit("Equal", second, add(op, first, 1)))
    most = sub(op, op.emit("Shape", slots.labels, start=2, end=3), 1)
    at = op.emit("Expand", op.emit("Min", second, most), op.emit("Shape", prefix))
    following = op.emit("Transpose", op.emit("GatherElements", slots.labels, at, axis=2), perm=[0, 2, 1])
    return _Relations(parent, prefix, following)


def _candidates(
    op: Op, slots: _Slots, beam_ends: tuple[Value, Value, Value], step: tuple[Value, Value, Value], related: _Relations
) -> _Candidates:
    """Probabilities after a step. A longer prefix that is in the beam itself counts there, and only there."""
    (beam, last, ends_in), (now, kept, numbers) = beam_ends, step
    zero = op.const(0.0, np.float32)
    total = add(op, slots.blank, slots.label)
    blank, blank_kept = (slice_axis(op, v, 1, 0, 1) for v in (now, kept))
    last_kept = op.emit(
        "And", op.emit("GatherElements", kept, last, axis=1), op.emit("Cast", last, to=int(ir.DataType.BOOL))
    )
    parent, ends = cast(op, related.parent, FLOAT), cast(op, ends_in, FLOAT)

    each = unsqueeze(op, now, [1])
    allowed = op.emit(
        "And",
        unsqueeze(op, op.emit("And", kept, op.emit("Cast", numbers, to=int(ir.DataType.BOOL))), [1]),
        unsqueeze(op, beam, [2]),
    )
    in_beam = op.emit("Cast", op.emit("MatMul", parent, ends), to=int(ir.DataType.BOOL))
    # A label that is repeated is a new one only after a blank.
    before = op.emit("Where", ends_in, unsqueeze(op, slots.blank, [2]), unsqueeze(op, total, [2]))
    going_on = mul(op, each, before)
    new = op.emit("And", allowed, op.emit("Not", in_beam))
    longer = add(op, slots.longer_blank, slots.longer_label)
    longer_blank = op.emit("Where", new, mul(op, unsqueeze(op, blank, [2]), longer), zero)
    longer_label = op.emit("Where", new, add(op, going_on, mul(op, each, slots.longer_label)), zero)

    given = op.emit("Where", op.emit("And", allowed, in_beam), going_on, zero)
    by_pair = op.emit("MatMul", given, op.emit("Transpose", ends, perm=[0, 2, 1]))
    received = op.emit("ReduceSum", mul(op, parent, by_pair), op.const([1], np.int64), keepdims=0)
    stays = mul(op, op.emit("GatherElements", now, last, axis=1), slots.label)
    label = add(op, op.emit("Where", op.emit("And", last_kept, beam), stays, zero), received)
    ended = op.emit("Where", op.emit("And", blank_kept, beam), mul(op, blank, total), zero)
    exists = op.emit("And", beam, op.emit("Or", blank_kept, last_kept))
    return _Candidates(ended, label, exists, longer_blank, longer_label, new)


def _chosen(
    op: Op, slots: _Slots, beam: Value, ends: Value, found: _Candidates, related: _Relations, sizes: _Sizes
) -> _Slots:
    """The best candidates; of equal ones that whose labels come first."""
    count = vector(op, [sizes.slots])
    row = [sizes.batch, product(op, [sizes.slots, sizes.classes])]
    blank, label, exists = (
        op.emit("Concat", short, reshape(op, long, row), axis=1)
        for short, long in (
            (found.blank, found.longer_blank),
            (found.label, found.longer_label),
            (found.exists, found.longer_exists),
        )
    )
    keys = _keys(op, slots, beam, related, sizes)
    _, order = op.emit("TopK", keys, op.emit("Shape", keys, start=1), axis=1, largest=0, outputs=2)
    score = op.emit("Where", exists, add(op, blank, label), op.const(-np.inf, np.float32))
    best, place = op.emit("TopK", op.emit("GatherElements", score, order, axis=1), count, axis=1, outputs=2)
    pick = op.emit("GatherElements", order, place, axis=1)
    blank, label = (op.emit("GatherElements", v, pick, axis=1) for v in (blank, label))

    shorter = op.emit("Less", pick, op.const(sizes.slots, np.int64))
    beyond, classes = sub(op, pick, sizes.slots), sizes.one(op, sizes.classes)
    source = op.emit("Where", shorter, pick, op.emit("Div", beyond, classes))
    added = op.emit("Where", shorter, op.const(0, np.int64), op.emit("Mod", beyond, classes))
    rows = unsqueeze(op, source, [2])
    labels, prefix, following, longer_blank, longer_label = (
        op.emit("GatherND", v, rows, batch_dims=1)
        for v in (slots.labels, related.prefix, related.following, found.longer_blank, found.longer_label)
    )
    length = op.emit("GatherElements", slots.length, source, axis=1)
    at_end = op.emit("Equal", indices(op, size(op, slots.labels, 2)), unsqueeze(op, length, [2]))
    long = unsqueeze(op, op.emit("Not", shorter), [2])
    labels = op.emit("Where", op.emit("And", at_end, long), unsqueeze(op, added, [2]), labels)
    length = add(op, length, cast(op, op.emit("Not", shorter), INT64))

    # Which prefixes of the old beam are longer by one label than the new ones.
    next_length = op.emit("Equal", unsqueeze(op, slots.length, [1]), unsqueeze(op, add(op, length, 1), [2]))
    goes_on = op.emit("Or", op.emit("Equal", following, unsqueeze(op, added, [2])), unsqueeze(op, shorter, [2]))
    child = cast(op, op.emit("And", op.emit("And", prefix, next_length), goes_on), FLOAT)
    longer_blank, longer_label = (
        add(
            op,
            op.emit("MatMul", mul(op, child, unsqueeze(op, own, [1])), ends),
            op.emit("Where", long, op.const(0.0, np.float32), further),
        )
        for own, further in ((found.blank, longer_blank), (found.label, longer_label))
    )
    return _Slots(labels, length, best, blank, label, longer_blank, longer_label, place)


def _keys(op: Op, slots: _Slots, beam: Value, related: _Relations, sizes: _Sizes) -> Value:
    """Numbers that order the candidates by their labels, [N, M + M * C].

    The prefixes of the beam are in order; a longer prefix comes after its own, and after those of the beam that go on
    from it with a lower label. Between two of the beam, those of a longer prefix come first, then those of a lower
    label.
    """
    lower = op.emit("Less", unsqueeze(op, slots.place, [1]), unsqueeze(op, slots.place, [2]))
    rank = _count(op, op.emit("And", lower, unsqueeze(op, beam, [1])), 2)
    numbers = indices(op, sizes.classes)
    below = op.emit("Less", unsqueeze(op, related.following, [3]), numbers)
    between = _count(op, op.emit("And", below, unsqueeze(op, related.prefix, [3])), 2)
    steps, classes = sizes.one(op, sizes.steps), sizes.one(op, sizes.classes)
    stride = add(op, steps, 1)
    gap = add(op, unsqueeze(op, rank, [2]), between, 1)
    depth = unsqueeze(op, sub(op, steps, slots.length), [2])
    longer = add(op, mul(op, add(op, mul(op, gap, 2, stride), depth), classes), numbers)
    own = mul(op, add(op, mul(op, rank, 2), 1), stride, classes)
    return op.emit("Concat", own, reshape(op, longer, [sizes.batch, product(op, [sizes.slots, sizes.classes])]), axis=1)


def _count(op: Op, flags: Value, axis: int) -> Value:
    return op.emit("ReduceSum", cast(op, flags, INT64), op.const([axis], np.int64), keepdims=0)

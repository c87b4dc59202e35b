"""CTC prefix beam search, as one Loop over time for all sequences of a batch.

Caffe2 keeps the probabilities of prefixes in hash maps. Here each of M *slots* holds a prefix, best first; the first
``width`` slots are the beam. The *candidates* of the next step are the prefixes of the beam and their extensions by one
label, M + M * C of them, and the best M candidates become the next slots.

For a prefix the search needs two probabilities: of all paths that end in a blank and of those that end in the last
label, as a repeated label extends the prefix only after a blank. Caffe2 also reads the probabilities that prefixes
outside the beam had one step before, if they are extensions of prefixes in the beam; each slot therefore keeps those of
its C extensions too.

Shapes: N sequences, M slots, L labels at most (the number of steps), C classes.
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
    """The prefixes of a step.

    Attributes:
        labels: the labels, [N, M, L].
        length: the number of labels, [N, M].
        score: the probability, [N, M]; -inf in an empty slot.
        blank: the probability of the paths that end in a blank, [N, M].
        label: the probability of the paths that end in the last label, [N, M].
        longer_blank: ``blank`` of the prefix extended by each label, [N, M, C].
        longer_label: ``label`` of the prefix extended by each label, [N, M, C].
        rank: a number that orders the prefixes lexicographically by their labels, [N, M].
    """

    labels: Value
    length: Value
    score: Value
    blank: Value
    label: Value
    longer_blank: Value
    longer_label: Value
    rank: Value


@dataclass(frozen=True)
class _Relations:
    """Relations between pairs of prefixes of the beam, [N, M, M].

    Attributes:
        parent: whether the second is the first extended by one label.
        prefix: whether the second is the first extended by one or more labels.
        following: the second's label at the position after the first's last one.
    """

    parent: Value
    prefix: Value
    following: Value


@dataclass(frozen=True)
class _Candidates:
    """Probabilities of the beam's prefixes, [N, M], and of their extensions, [N, M, C], and which are candidates."""

    blank: Value
    label: Value
    exists: Value
    longer_blank: Value
    longer_label: Value
    longer_exists: Value


@dataclass(frozen=True)
class _Sizes:
    """The numbers of slots, classes and steps; int64 tensors [1] where they are unknown at conversion."""

    slots: int
    beam: int
    batch: Size
    classes: Size
    steps: Size

    def one(self, op: Op, value: Size) -> Value:
        """Return a size as an int64 tensor [1]."""
        return vector(op, [value])


def beam_search(
    op: Op, inputs: Value, running: Value, width: int, count: int, threshold: float
) -> tuple[Value, Value, Value]:
    """Search for the most probable label sequences.

    Args:
        op: the operator under conversion.
        inputs: probabilities [T, N, C]; label 0 is the blank.
        running: the mask of the steps that belong to the sequences, [T, N] bool.
        width: the number of prefixes in the beam.
        count: the number of prefixes to return.
        threshold: labels of at most this probability are pruned, unless all of a step would be.

    Returns:
        Labels [N, count, T], lengths [N, count] and probabilities [N, count] of prefixes, best first; lengths and
        probabilities are 0 where fewer prefixes exist.
    """
    steps, batch, classes = (size(op, inputs, axis) for axis in range(3))
    sizes = _Sizes(max(width, count), width, batch, classes, steps)

    def step(inside: Op, states: list[Value], iteration: list[Value]) -> tuple[list[Value], list[Value]]:
        now, active = (inside.emit("Gather", v, iteration[0], axis=0) for v in (inputs, running))
        before = _Slots(*states)
        after = _step(inside, before, now, threshold, sizes)
        # Sequences that have ended keep their slots.
        return [
            inside.emit("Where", unsqueeze(inside, active, range(1, inside.rank(old))), new, old)
            for old, new in zip(_values(before), _values(after), strict=True)
        ], []

    final, _ = loop(op, steps, None, _values(_start(op, sizes)), step)
    slots = _Slots(*final)
    labels, length, score = (slice_axis(op, v, 1, 0, count) for v in (slots.labels, slots.length, slots.score))
    # A sequence of no steps has no prefixes, not even the empty one.
    step_count = op.emit("ReduceSum", cast(op, running, INT64), op.const([0], np.int64), keepdims=0)
    filled = op.emit("Greater", score, op.const(-np.inf, np.float32))
    filled = op.emit("And", filled, unsqueeze(op, op.emit("Cast", step_count, to=int(ir.DataType.BOOL)), [1]))
    length = mul(op, length, cast(op, filled, INT64))
    return labels, length, op.emit("Where", filled, score, op.const(0.0, np.float32))


def _values(slots: _Slots) -> tuple[Value, ...]:
    """Return the values of the slots, in the order of the fields."""
    return tuple(getattr(slots, name) for name in slots.__dataclass_fields__)


def _start(op: Op, sizes: _Sizes) -> _Slots:
    """Return the slots before the first step: one empty prefix of probability 1."""
    op.bounded(sizes.slots, sizes.slots)  # each step compares all pairs
    first = np.eye(1, sizes.slots, dtype=np.float32)
    by_slot = vector(op, [sizes.batch, sizes.slots])
    one = op.emit("Expand", op.const(first), by_slot)
    score = op.emit("Expand", op.const(np.where(first, first, -np.inf)), by_slot)
    zero = op.emit("Expand", op.const([[0]], np.int64), by_slot)
    labels = op.emit("Expand", op.const([[[0]]], np.int64), vector(op, [sizes.batch, sizes.slots, sizes.steps]))
    longer = op.emit("Expand", op.const([[[0]]], np.float32), vector(op, [sizes.batch, sizes.slots, sizes.classes]))
    return _Slots(labels, zero, score, one, mul(op, one, 0.0), longer, longer, zero)


def _step(op: Op, slots: _Slots, now: Value, threshold: float, sizes: _Sizes) -> _Slots:
    """Return the slots after a step of probabilities ``now``, [N, C]."""
    # Prune labels, unless all of them would be.
    kept = op.emit("Greater", now, op.const(threshold, np.float32))
    any_kept = op.emit("ReduceMax", cast(op, kept, INT64), op.const([1], np.int64), keepdims=1)
    kept = op.emit("Or", kept, op.emit("Equal", any_kept, op.const(0, np.int64)))
    filled = op.emit("Greater", slots.score, op.const(-np.inf, np.float32))
    beam = op.emit("And", filled, op.const(np.arange(sizes.slots) < sizes.beam))
    # The last label of each prefix, 0 (the blank) for the empty one; ends_in is its one-hot form, [N, M, C].
    end = op.emit("Max", sub(op, slots.length, 1), op.const(0, np.int64))
    last = squeeze(op, op.emit("GatherElements", slots.labels, unsqueeze(op, end, [2]), axis=2), [2])
    classes = indices(op, sizes.classes)
    has_last = op.emit("Greater", last, op.const(0, np.int64))
    ends_in = op.emit("And", op.emit("Equal", classes, unsqueeze(op, last, [2])), unsqueeze(op, has_last, [2]))
    related = _relations(op, slots, beam)
    found = _candidates(op, slots, (beam, last, ends_in), (now, kept, classes), related)
    return _select(op, slots, beam, cast(op, ends_in, FLOAT), found, related, sizes)


def _relations(op: Op, slots: _Slots, beam: Value) -> _Relations:
    """Compare all pairs of prefixes of the beam: [N, M, 1, L] with [N, 1, M, L], both cut to the first's length."""
    first, second = unsqueeze(op, slots.length, [2]), unsqueeze(op, slots.length, [1])
    positions = indices(op, size(op, slots.labels, 2))
    within = op.emit("Less", positions, unsqueeze(op, first, [3]))
    start = op.emit("Where", within, unsqueeze(op, slots.labels, [1]), op.const(0, np.int64))
    equal = cast(op, op.emit("Equal", start, unsqueeze(op, slots.labels, [2])), INT64)
    same = cast(op, op.emit("ReduceMin", equal, op.const([3], np.int64), keepdims=0), ir.DataType.BOOL)
    both = op.emit("And", unsqueeze(op, beam, [2]), unsqueeze(op, beam, [1]))
    prefix = op.emit("And", op.emit("And", same, both), op.emit("Less", first, second))
    parent = op.emit("And", prefix, op.emit("Equal", second, add(op, first, 1)))
    last_index = sub(op, op.emit("Shape", slots.labels, start=2, end=3), 1)
    at = op.emit("Expand", op.emit("Min", second, last_index), op.emit("Shape", prefix))
    following = op.emit("Transpose", op.emit("GatherElements", slots.labels, at, axis=2), perm=[0, 2, 1])
    return _Relations(parent, prefix, following)


def _candidates(
    op: Op, slots: _Slots, beam_ends: tuple[Value, Value, Value], step: tuple[Value, Value, Value], related: _Relations
) -> _Candidates:
    """Return the candidates' probabilities after a step.

    An extension that is itself in the beam is counted there alone: its parent passes on its probability.
    """
    (beam, last, ends_in), (now, kept, classes) = beam_ends, step
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
        unsqueeze(op, op.emit("And", kept, op.emit("Cast", classes, to=int(ir.DataType.BOOL))), [1]),
        unsqueeze(op, beam, [2]),
    )
    # in_beam[n, m, c]: the extension of prefix m by label c is in the beam.
    in_beam = op.emit("Cast", op.emit("MatMul", parent, ends), to=int(ir.DataType.BOOL))
    # A repeated label extends the prefix only after a blank; without one it continues the same label.
    before = op.emit("Where", ends_in, unsqueeze(op, slots.blank, [2]), unsqueeze(op, total, [2]))
    extended = mul(op, each, before)
    new = op.emit("And", allowed, op.emit("Not", in_beam))
    longer = add(op, slots.longer_blank, slots.longer_label)
    longer_blank = op.emit("Where", new, mul(op, unsqueeze(op, blank, [2]), longer), zero)
    longer_label = op.emit("Where", new, add(op, extended, mul(op, each, slots.longer_label)), zero)

    # What each prefix of the beam receives from its parent, by its last label.
    passed = op.emit("Where", op.emit("And", allowed, in_beam), extended, zero)
    by_pair = op.emit("MatMul", passed, op.emit("Transpose", ends, perm=[0, 2, 1]))
    received = op.emit("ReduceSum", mul(op, parent, by_pair), op.const([1], np.int64), keepdims=0)
    stays = mul(op, op.emit("GatherElements", now, last, axis=1), slots.label)
    label = add(op, op.emit("Where", op.emit("And", last_kept, beam), stays, zero), received)
    ended = op.emit("Where", op.emit("And", blank_kept, beam), mul(op, blank, total), zero)
    exists = op.emit("And", beam, op.emit("Or", blank_kept, last_kept))
    return _Candidates(ended, label, exists, longer_blank, longer_label, new)


def _select(
    op: Op, slots: _Slots, beam: Value, ends: Value, found: _Candidates, related: _Relations, sizes: _Sizes
) -> _Slots:
    """Return the best candidates as the next slots; of equal probabilities the lexicographically first, as in Caffe2.

    The candidates are sorted by their labels first, as TopK takes the first of equal elements.
    """
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
    keys = _sort_keys(op, slots, beam, related, sizes)
    _, order = op.emit("TopK", keys, op.emit("Shape", keys, start=1), axis=1, largest=0, outputs=2)
    score = op.emit("Where", exists, add(op, blank, label), op.const(-np.inf, np.float32))
    best, rank = op.emit("TopK", op.emit("GatherElements", score, order, axis=1), count, axis=1, outputs=2)
    pick = op.emit("GatherElements", order, rank, axis=1)
    blank, label = (op.emit("GatherElements", v, pick, axis=1) for v in (blank, label))

    # Candidates below M are the prefixes themselves, those from M on are extensions: slot * C + label.
    unchanged = op.emit("Less", pick, op.const(sizes.slots, np.int64))
    beyond, classes = sub(op, pick, sizes.slots), sizes.one(op, sizes.classes)
    source = op.emit("Where", unchanged, pick, op.emit("Div", beyond, classes))
    added = op.emit("Where", unchanged, op.const(0, np.int64), op.emit("Mod", beyond, classes))
    rows = unsqueeze(op, source, [2])
    labels, prefix, following, longer_blank, longer_label = (
        op.emit("GatherND", v, rows, batch_dims=1)
        for v in (slots.labels, related.prefix, related.following, found.longer_blank, found.longer_label)
    )
    length = op.emit("GatherElements", slots.length, source, axis=1)
    at_end = op.emit("Equal", indices(op, size(op, slots.labels, 2)), unsqueeze(op, length, [2]))
    is_extension = unsqueeze(op, op.emit("Not", unchanged), [2])
    labels = op.emit("Where", op.emit("And", at_end, is_extension), unsqueeze(op, added, [2]), labels)
    length = add(op, length, cast(op, op.emit("Not", unchanged), INT64))

    # The extensions of a new slot: those of the same prefix, if it was one before, and the prefixes of the old beam
    # that are longer by one label.
    next_length = op.emit("Equal", unsqueeze(op, slots.length, [1]), unsqueeze(op, add(op, length, 1), [2]))
    same_path = op.emit("Or", op.emit("Equal", following, unsqueeze(op, added, [2])), unsqueeze(op, unchanged, [2]))
    child = cast(op, op.emit("And", op.emit("And", prefix, next_length), same_path), FLOAT)
    longer_blank, longer_label = (
        add(
            op,
            op.emit("MatMul", mul(op, child, unsqueeze(op, own, [1])), ends),
            op.emit("Where", is_extension, op.const(0.0, np.float32), further),
        )
        for own, further in ((found.blank, longer_blank), (found.label, longer_label))
    )
    return _Slots(labels, length, best, blank, label, longer_blank, longer_label, rank)


def _sort_keys(op: Op, slots: _Slots, beam: Value, related: _Relations, sizes: _Sizes) -> Value:
    """Return integers that order the candidates lexicographically by their labels, [N, M + M * C].

    The prefixes of the beam divide the order into gaps. An extension comes after its prefix, and after those prefixes
    of the beam that continue its prefix with a lower label; the number of prefixes before it is its gap. Extensions in
    one gap are ordered by the length of their prefix, longest first, and then by their label. The key is therefore a
    number in the mixed radix (gap, L - length, label).
    """
    lower = op.emit("Less", unsqueeze(op, slots.rank, [1]), unsqueeze(op, slots.rank, [2]))
    rank = _count(op, op.emit("And", lower, unsqueeze(op, beam, [1])), 2)
    labels = indices(op, sizes.classes)
    below = op.emit("Less", unsqueeze(op, related.following, [3]), labels)
    between = _count(op, op.emit("And", below, unsqueeze(op, related.prefix, [3])), 2)
    steps, classes = sizes.one(op, sizes.steps), sizes.one(op, sizes.classes)
    stride = add(op, steps, 1)
    gap = add(op, unsqueeze(op, rank, [2]), between, 1)
    depth = unsqueeze(op, sub(op, steps, slots.length), [2])
    longer = add(op, mul(op, add(op, mul(op, gap, 2, stride), depth), classes), labels)
    own = mul(op, add(op, mul(op, rank, 2), 1), stride, classes)
    return op.emit("Concat", own, reshape(op, longer, [sizes.batch, product(op, [sizes.slots, sizes.classes])]), axis=1)


def _count(op: Op, flags: Value, axis: int) -> Value:
    return op.emit("ReduceSum", cast(op, flags, INT64), op.const([axis], np.int64), keepdims=0)

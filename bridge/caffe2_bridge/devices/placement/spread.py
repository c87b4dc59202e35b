"""Spread the operators of the GPUs' side over several GPUs: a part in a row for each, within its memory.

Caffe2 keeps every blob of a workspace, so a GPU needs the memory of all blobs that its operators read or write. The
parts are found by dynamic programming over the places between two operators: of all divisions within the bounds, the
one whose copies from part to part cost least.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Final, TypeAlias

from caffe2_bridge.devices.flow import Flow, FlowStep
from caffe2_bridge.devices.operand_sides import Side

_NOWHERE: Final = math.inf
Touched: TypeAlias = Sequence[frozenset[int]]  # the values that each operator reads or writes on its GPU


def touched_values(step: FlowStep) -> frozenset[int]:
    """Return the values that an operator reads or writes on its own device."""
    return frozenset(
        value
        for values, sides in zip((step.inputs, step.outputs), step.sides, strict=True)
        for value, side in zip(values, sides, strict=True)
        if side in {Side.SAME, Side.GPU}
    )


def spread(
    flow: Flow,
    chosen: Sequence[int],
    limits: Sequence[float],
    size: Callable[[int], float],
    transfer: Callable[[int], float],
) -> list[int] | None:
    """Divide operators among GPUs.

    Args:
        flow: the net.
        chosen: the numbers of the steps that run on GPUs, in order.
        limits: the bytes that each GPU has.
        size: the bytes of a value.
        transfer: the cost of copying a value to another GPU.

    Returns:
        For each chosen step the index of its GPU; None if the GPUs have too little memory.
    """
    touched = [touched_values(flow.steps[number]) for number in chosen]
    crossing = _crossing(touched, transfer)
    for place in _inside_groups(flow, chosen):
        crossing[place] = _NOWHERE
    count = len(chosen)
    best = [0.0] + [_NOWHERE] * count  # the cost of the parts so far, by the number of operators in them
    starts: list[list[int]] = []  # by GPU, and by where its part ends: where it begins
    for limit in limits:
        best, begins = _next_part(best, crossing, _first_starts(touched, size, limit))
        starts.append(begins)
    if best[count] == _NOWHERE:
        return None
    result = [0] * count
    end = count
    for gpu in reversed(range(len(limits))):
        begin = starts[gpu][end]
        result[begin:end] = [gpu] * (end - begin)
        end = begin
    return result


def _crossing(touched: Touched, transfer: Callable[[int], float]) -> list[float]:
    """Return by place (place i is before operator i) the cost of copies of values that are used on both sides."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for index, values in enumerate(touched):
        for value in values:
            first.setdefault(value, index)
            last[value] = index
    change = [0.0] * (len(touched) + 2)
    for value, index in first.items():
        if last[value] > index:
            cost = transfer(value)
            change[index + 1] += cost
            change[last[value] + 1] -= cost
    return [max(cost, 0.0) for cost in accumulate(change[: len(touched) + 1])]


def _inside_groups(flow: Flow, chosen: Sequence[int]) -> set[int]:
    """Return places between operators that must be on one GPU: those of one body, or whose results are joined."""
    position = {number: index for index, number in enumerate(chosen)}
    makers: dict[int, int] = {}
    for number in chosen:
        step = flow.steps[number]
        for value, side in zip(step.outputs, step.sides[1], strict=True):
            if side in {Side.SAME, Side.GPU}:
                makers.setdefault(value, position[number])
    groups = [[makers[value] for value in step.inputs if value in makers] for step in flow.steps if step.proto is None]
    places = {place for group in groups if group for place in range(min(group) + 1, max(group) + 1)}
    for index, (one, other) in enumerate(pairwise(chosen), 1):
        if _operator_around(flow.steps[one]) == _operator_around(flow.steps[other]):
            places.add(index)
    return places


def _operator_around(step: FlowStep) -> int:
    """Return the index in the outermost net of an operator, or of that whose body it is in."""
    path = step.net.path
    index = path[0].index if path else step.index
    return -1 if index is None else index


def _first_starts(touched: Touched, size: Callable[[int], float], limit: float) -> list[int]:
    """Return, by where a part ends, the first place where it may begin so that its blobs fit."""
    held: dict[int, int] = {}  # by value, by how many operators of the part it is used
    used, start = 0.0, 0
    starts = [0]
    for end, values in enumerate(touched, 1):
        for value in values:
            if not held.get(value):
                used += size(value)
            held[value] = held.get(value, 0) + 1
        while used > limit and start < end:
            for value in touched[start]:
                held[value] -= 1
                if not held[value]:
                    used -= size(value)
            start += 1
        starts.append(start)
    return starts


def _next_part(before: list[float], crossing: list[float], first_starts: list[int]) -> tuple[list[float], list[int]]:
    """Add a part, which may be empty: the least cost by where it ends, and where it then begins."""
    best, begins = list(before), list(range(len(before)))
    window: deque[tuple[float, int]] = deque()  # ascending costs of beginnings, of those that may still be best
    for end in range(1, len(before)):
        begin = end - 1
        cost = before[begin] + (crossing[begin] if begin else 0.0)
        while window and window[-1][0] >= cost:
            window.pop()
        window.append((cost, begin))
        while window and window[0][1] < first_starts[end]:
            window.popleft()
        if window and window[0][0] < best[end]:
            best[end], begins[end] = window[0]
    return best, begins

"""The trees of a hierarchical softmax: serialized messages in a string argument."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from caffe2_bridge import wire
from caffe2_bridge.wire import Span

# HierarchyProto: paths = 2. PathProto: word_id = 1, path_nodes = 2. PathNodeProto: index = 1, length = 2, target = 3.
_PATHS, _WORD, _STEPS = 2, 1, 2
_STEP: Final = (1, 2, 3)
# TreeProto: root_node = 1. NodeProto: children = 1, word_ids = 2, offset = 3, name = 4.
_ROOT, _CHILDREN, _WORDS, _OFFSET, _NAME = 1, 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class PathStep:
    """A choice on the path to a word: class ``target`` of the ``length`` classes from row ``index`` of W."""

    index: int
    length: int
    target: int


@dataclass(frozen=True, slots=True)
class Choice:
    """One class of a node.

    Attributes:
        name: the name of the child node, or the decimal id of the word.
        index: the row of the weights of the node's first class.
        length: the number of the node's classes.
        target: the index of this class among them.
        above: the choices that lead to the node, from the root, as indices in the list of all choices.
    """

    name: str
    index: int
    length: int
    target: int
    above: tuple[int, ...]


def read_paths(data: bytes) -> dict[int, tuple[PathStep, ...]]:
    """Read the path to each word, by ascending id, from a serialized HierarchyProto. Raises WireError."""
    paths = {}
    for path in wire.payloads(Span.of(data), _PATHS):
        steps = (PathStep(*(_integer(step, field) for field in _STEP)) for step in wire.payloads(path, _STEPS))
        paths[_integer(path, _WORD)] = tuple(steps)
    return dict(sorted(paths.items()))


def read_choices(data: bytes) -> list[Choice]:
    """Read all choices of a serialized TreeProto, parents before children. Raises WireError."""
    choices: list[Choice] = []
    pending: list[tuple[Span, tuple[int, ...]]] = [(root, ()) for root in wire.payloads(Span.of(data), _ROOT)[-1:]]
    while pending:
        node, above = pending.pop()
        children = wire.payloads(node, _CHILDREN)
        names = [_text(child, _NAME) for child in children]
        names += map(str, wire.varints(node, _WORDS).tolist())
        offset, first = _integer(node, _OFFSET), len(choices)
        choices += [Choice(name, offset, len(names), i, above) for i, name in enumerate(names)]
        pending += [(child, (*above, first + i)) for i, child in enumerate(children)]
    return choices


def _integer(span: Span, field: int) -> int:
    """Return the last integer of a field; 0 if it is missing."""
    values = wire.varints(span, field)
    return int(values[-1]) if values.size else 0


def _text(span: Span, field: int) -> str:
    """Return the last string of a field; an empty one if it is missing."""
    texts = wire.payloads(span, field)
    return texts[-1].tobytes().decode(errors="replace") if texts else ""

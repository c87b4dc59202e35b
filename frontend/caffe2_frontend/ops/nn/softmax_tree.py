"""The trees of a hierarchical softmax, as operators carry them: serialized messages in a string argument."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from caffe2_bridge.wire import read as wire
from caffe2_bridge.wire.read import Span

# HierarchyProto: paths = 2. PathProto: word_id = 1, path_nodes = 2. PathNodeProto: index = 1, length = 2, target = 3.
_PATHS, _WORD, _STEPS = 2, 1, 2
_STEP: Final = (1, 2, 3)
# TreeProto: root_node = 1. NodeProto: children = 1, word_ids = 2, offset = 3, name = 4.
_ROOT, _CHILDREN, _WORDS, _OFFSET, _NAME = 1, 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class Step:
    """One choice on the way to a word: which of the ``length`` classes that begin at row ``index`` of the weights."""

    index: int
    length: int
    target: int


@dataclass(frozen=True, slots=True)
class Choice:
    """One class of a node: its name, where it stands, and those above it (positions in the list of all choices)."""

    name: str
    index: int
    length: int
    target: int
    above: tuple[int, ...]


def read_paths(data: bytes) -> dict[int, tuple[Step, ...]]:
    """The way to each word of a serialized HierarchyProto. Raises WireError."""
    paths = {}
    for path in wire.payloads(Span.of(data), _PATHS):
        steps = (Step(*(_number(step, field) for field in _STEP)) for step in wire.payloads(path, _STEPS))
        paths[_number(path, _WORD)] = tuple(steps)
    return dict(sorted(paths.items()))


def read_choices(data: bytes) -> list[Choice]:
    """All choices of a serialized TreeProto, those of a node before those of its children. Raises WireError."""
    choices: list[Choice] = []
    pending: list[tuple[Span, tuple[int, ...]]] = [(root, ()) for root in wire.payloads(Span.of(data), _ROOT)[-1:]]
    while pending:
        node, above = pending.pop()
        children = wire.payloads(node, _CHILDREN)
        names = [_text(child, _NAME) for child in children]
        names += map(str, wire.varints(node, _WORDS).tolist())
        offset, first = _number(node, _OFFSET), len(choices)
        choices += [Choice(name, offset, len(names), i, above) for i, name in enumerate(names)]
        pending += [(child, (*above, first + i)) for i, child in enumerate(children)]
    return choices


def _number(span: Span, field: int) -> int:
    values = wire.varints(span, field)
    return int(values[-1]) if values.size else 0


def _text(span: Span, field: int) -> str:
    texts = wire.payloads(span, field)
    return texts[-1].tobytes().decode(errors="replace") if texts else ""

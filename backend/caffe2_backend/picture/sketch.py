"""What a picture shows, before it is laid out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple


class Type(NamedTuple):
    """What is known of a blob as text: its shape, and its element type; empty if unknown."""

    extent: str = ""
    dtype: str = ""


class Kind(StrEnum):
    """What a node stands for. ``JOIN`` is where the results of an operator with bodies come out."""

    OPERATOR = "operator"
    INPUT = "input"
    OUTPUT = "output"
    JOIN = "join"


@dataclass(frozen=True)
class Node:
    """A node: a title, lines in small print below it (parameters, arguments), and the whole story as a tooltip.

    Attributes:
        outputs: the blobs that an operator writes.
        types: of the outputs; of a net's input or output, its own.
        location: of an operator, as diagnostics and divergences spell it.
        name: of an operator.
        inputs: the blobs that an operator lists as inputs.
        arguments: all arguments of an operator, as text.
    """

    key: str
    title: str
    kind: Kind = Kind.OPERATOR
    lines: tuple[str, ...] = ()
    tooltip: str = ""
    device: str = ""
    outputs: tuple[str, ...] = ()
    types: tuple[Type, ...] = ()
    location: str = ""
    name: str = ""
    inputs: tuple[str, ...] = ()
    arguments: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Edge:
    """A blob on its way from one node to another; one without a label and ``data`` only keeps bodies in place."""

    source: str
    target: str
    label: str = ""
    tooltip: str = ""
    data: bool = True
    blob: str = ""


@dataclass
class Box:
    """Nodes that belong together: the whole, an operator with bodies, or one of its bodies."""

    key: str
    title: str = ""
    body: bool = False
    nodes: list[Node] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)

    def every_node(self) -> Iterator[Node]:
        """Yield its nodes and those of the boxes in it."""
        yield from self.nodes
        for box in self.boxes:
            yield from box.every_node()

    def every_box(self) -> Iterator[Box]:
        """Yield the boxes in it, at any depth."""
        for box in self.boxes:
            yield box
            yield from box.every_box()


@dataclass
class Sketch:
    """A picture: nodes in boxes, and edges between them."""

    title: str
    whole: Box = field(default_factory=lambda: Box("whole"))
    edges: list[Edge] = field(default_factory=list)

    def devices(self) -> list[str]:
        """Return the devices that operators run on, in the order in which they are met."""
        nodes = (node.device for node in self.whole.every_node() if node.kind is Kind.OPERATOR)
        return list(dict.fromkeys(device for device in nodes if device))


@dataclass(frozen=True)
class Colouring:
    """The meaning of colours and of marked operators.

    Attributes:
        group: the group of an operator.
        colours: the colour of each group, for the legend.
        marks: a short text for each operator to mark, by the node's key.
    """

    group: Callable[[Node], str]
    colours: Mapping[str, str]
    marks: Mapping[str, str] = field(default_factory=dict)


# Of arguments and attributes.
MOST_ITEMS: Final = 32
LONGEST_TEXT: Final = 200
_LONGEST: Final = 30
# Generated names of unknown dims, shown as "?".
_NAMELESS: Final = re.compile(r".*_dim_\d+|unk__\d+")
_TIMES: Final = "\N{MULTIPLICATION SIGN}"


def shortened(name: str, longest: int = _LONGEST) -> str:
    """Shorten a long name in the middle, as names differ most at their ends."""
    if len(name) <= longest:
        return name
    head = longest // 4
    return f"{name[:head]}…{name[len(name) - (longest - head - 1) :]}"


def extent(shape: tuple[int | str | None, ...] | None) -> str:
    """Return a shape as people write it, ``?`` for a dim that is not known; empty where none is."""
    if shape is None:
        return ""
    dims = ["?" if (not dim and dim != 0) or _NAMELESS.fullmatch(str(dim)) else str(dim) for dim in shape]
    return "" if dims and set(dims) == {"?"} else _TIMES.join(dims) or "scalar"


def size_text(size: int) -> str:
    """Return bytes as text, in the unit that suits."""
    amount, unit = float(size), "bytes"
    for larger in ("kB", "MB", "GB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.3g} {unit}"


def listed(texts: Iterable[str], count: int) -> str:
    """Return the first items of a list as text, and how many there are if these are not all."""
    shown = list(texts)
    return f"[{', '.join(shown)}{f', … {count} in all' if count > len(shown) else ''}]"

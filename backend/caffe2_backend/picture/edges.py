"""Drawing of nets, for Caffe2 and ONNX alike: an edge for each blob, from its last writer to each reader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from caffe2_backend.picture.sketch import Box, Edge, Kind, Node, Sketch, Type, shortened

_LONGEST_LINE: Final = 34  # characters


@dataclass(frozen=True)
class DrawnNet:
    """A net as it is drawn: the whole, or the body of an operator.

    Attributes:
        name: of the net, or of the operator's argument.
        operators: its operators.
        inputs: its inputs, drawn even if no operator reads them.
        outputs: its outputs.
        notes: the roles of inputs by name, such as a state or a row of a sequence.
        result_notes: the same for outputs.
    """

    name: str
    operators: Sequence[DrawnOperator]
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    result_notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DrawnOperator:
    """An operator as it is drawn.

    ``types`` are those of its outputs; ``location`` and ``arguments`` are as in :class:`Node`.
    """

    type: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    types: Sequence[Type] = ()
    lines: tuple[str, ...] = ()
    name: str = ""
    device: str = ""
    bodies: tuple[DrawnNet, ...] = ()
    location: str = ""
    arguments: tuple[tuple[str, str], ...] = ()


@dataclass
class _Origin:
    """The node that a blob comes from. Its first edge is labelled, further ones have the label as a tooltip."""

    key: str
    type: Type = field(default_factory=Type)
    labelled: bool = False


@dataclass
class _Frame:
    """A net while it is drawn: its box, the origins of its blobs, and its first nodes."""

    net: DrawnNet
    box: Box
    parameters: set[str]  # blobs that are parameters here: not written, not given under the same name
    around: set[str] = field(default_factory=set)  # blobs of the nets around this one
    origins: dict[str, _Origin] = field(default_factory=dict)
    begin: list[str] = field(default_factory=list)

    def flowing(self, names: Sequence[str]) -> list[str]:
        """Return the blobs that are drawn as edges."""
        return [name for name in dict.fromkeys(names) if name and name not in self.parameters]

    def read_by(self, operator: DrawnOperator) -> list[str]:
        """Return the blobs with edges to an operator: its inputs, and those that its bodies capture."""
        known = self.around.union(self.origins, self.net.inputs)
        return self.flowing([*operator.inputs, *(name for name in _taken(operator.bodies) if name in known)])


class Flow:
    """Draws nets into a sketch.

    Args:
        title: of the picture.
        parameters: blobs that are drawn as lines of the operators that read them, with their shapes as text.
        given: the types of the net's inputs.
    """

    def __init__(self, title: str, parameters: Mapping[str, str], given: Mapping[str, Type]) -> None:
        self.sketch = Sketch(title)
        self._parameters = parameters
        self._given = given
        self._keys = count()

    def draw(self, net: DrawnNet) -> None:
        """Draw a net as the whole picture."""
        self._net(_Frame(net, self.sketch.whole, set(self._parameters)))

    def _net(self, frame: _Frame) -> tuple[list[str], list[str]]:
        """Draw a net; return the keys of its first and last nodes."""
        net = frame.net
        for name in frame.flowing(net.inputs):
            self._origin(frame, name)
        for operator in net.operators:
            self._step(frame, operator)
        ends = []
        for name in frame.flowing(net.outputs):
            origin = self._origin(frame, name)
            ends.append(self._pill(frame.box, name, Kind.OUTPUT, net.result_notes.get(name, ""), origin.type))
            self._edge(origin, ends[-1], name, origin.type.extent)
        return frame.begin, ends

    def _step(self, frame: _Frame, operator: DrawnOperator) -> None:
        start, end = self._operator(frame, operator)
        names = frame.read_by(operator)
        for name in names:
            origin = self._origin(frame, name)
            self._edge(origin, start, name, _label(name, origin.type.extent))
        if not names:
            frame.begin.append(start)
        for name, known in zip(operator.outputs, operator.types or [Type()] * len(operator.outputs), strict=True):
            frame.parameters.discard(name)
            frame.origins[name] = _Origin(end, known)

    def _origin(self, frame: _Frame, name: str) -> _Origin:
        """Return the origin of a blob; one that no operator has written yet is an input."""
        if name not in frame.origins:
            known = self._given.get(name, Type())
            key = self._pill(frame.box, name, Kind.INPUT, frame.net.notes.get(name, ""), known)
            frame.begin.append(key)
            frame.origins[name] = _Origin(key, known, labelled=True)
        return frame.origins[name]

    def _operator(self, frame: _Frame, operator: DrawnOperator) -> tuple[str, str]:
        """Draw an operator; return the keys of the nodes of its inputs and of its outputs."""
        shown_inside = set(_read_in(operator.bodies))
        weights = [n for n in dict.fromkeys(operator.inputs) if n in frame.parameters and n not in shown_inside]
        lines = (*operator.lines, *_parameter_lines({name: self._parameters[name] for name in weights}))
        node = Node(
            self._key(), operator.type, lines=lines, tooltip=_story(operator), device=operator.device,
            outputs=tuple(operator.outputs), types=tuple(operator.types), location=operator.location,
            name=operator.name, inputs=tuple(operator.inputs), arguments=operator.arguments,
        )  # fmt: skip
        if not operator.bodies:
            frame.box.nodes.append(node)
            return node.key, node.key
        join = Node(self._key(), "", Kind.JOIN, tooltip=f"results of {operator.type}")
        outer = Box(self._key(), nodes=[node, join])
        frame.box.boxes.append(outer)
        for body in operator.bodies:
            inner = Box(self._key(), body.name, body=True)
            outer.boxes.append(inner)
            around = frame.around.union(frame.origins, frame.net.inputs)
            begin, ends = self._net(_Frame(body, inner, frame.parameters - set(body.notes), around))
            self.sketch.edges.extend(Edge(node.key, key, data=False) for key in begin)
            self.sketch.edges.extend(Edge(key, join.key, data=False) for key in ends or begin[-1:])
        return node.key, join.key

    def _pill(self, box: Box, name: str, kind: Kind, note: str, known: Type) -> str:
        lines = tuple(line for line in (note, known.extent if kind is Kind.INPUT else "") if line)
        node = Node(self._key(), shortened(name), kind, lines, tooltip=name, types=(known,))
        box.nodes.append(node)
        return node.key

    def _edge(self, origin: _Origin, target: str, name: str, label: str) -> None:
        shown = "" if origin.labelled else label
        origin.labelled = True
        tooltip = f"{name}  {origin.type.extent}".strip()
        self.sketch.edges.append(Edge(origin.key, target, shown, tooltip, blob=name))

    def _key(self) -> str:
        return f"n{next(self._keys)}"


def _read_in(bodies: Sequence[DrawnNet]) -> Iterator[str]:
    """Yield the blobs that operators of bodies read, at any depth."""
    for body in bodies:
        for operator in body.operators:
            yield from operator.inputs
            yield from _read_in(operator.bodies)


def _taken(bodies: Sequence[DrawnNet]) -> Iterator[str]:
    """Yield the blobs that bodies capture: they read them, and neither write them nor have them as inputs."""
    for body in bodies:
        made = {*body.inputs, *body.notes}
        for operator in body.operators:
            yield from (name for name in (*operator.inputs, *_taken(operator.bodies)) if name not in made)
            made.update(operator.outputs)
        yield from (name for name in body.outputs if name not in made)


def _label(name: str, extent: str) -> str:
    """Return the label of an edge, on one line if it is short."""
    parts = [part for part in (shortened(name), extent) if part]
    return ("  " if sum(map(len, parts)) <= _LONGEST_LINE else "\n").join(parts)


def _parameter_lines(extents: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each parameter; those that differ only in their ends share one: ``bn_{s,b}  64``."""
    alike: dict[str, list[str]] = {}
    for name, extent in extents.items():
        alike.setdefault(extent, []).append(name)
    for extent, names in alike.items():
        start = _common_start(min(names), max(names))
        ends = ",".join(name.removeprefix(start) for name in names)
        if len(names) > 1 and start not in names and len(start) >= len(ends) // 2:
            yield f"{shortened(start, _LONGEST_LINE - len(ends))}{{{ends}}}  {extent}".rstrip()
        else:
            yield from (f"{shortened(name)}  {extent}".rstrip() for name in names)


def _common_start(one: str, other: str) -> str:
    return one[: next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))]


def _story(operator: DrawnOperator) -> str:
    lines = [
        f"{operator.type} {operator.name}".rstrip(),
        f"inputs: {', '.join(operator.inputs) or 'none'}",
        f"outputs: {', '.join(operator.outputs) or 'none'}",
    ]
    return "\n".join([*lines, f"device: {operator.device}"] if operator.device else lines)

"""Give equal dims one name, replace those that weights determine by numbers, and complete the shapes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import ClassVar, Final

import onnx_ir as ir

from caffe2_bridge.passes import InPlacePass
from caffe2_frontend.dims.classes import DimClasses
from caffe2_frontend.dims.complete import WITH_BODIES, complete_shapes
from caffe2_frontend.dims.rules import equalities, has_equalities, has_roles, roles
from caffe2_frontend.interop.bodies import bodies
from caffe2_frontend.lowering.dim_facts import as_dim
from caffe2_frontend.state import Export

# A completed shape can determine further dims, which complete further shapes.
_MOST_ROUNDS: Final = 3


class NameDims(InPlacePass[Export]):
    """Resolve the symbolic dims of all values.

    Dims are equal where Caffe2 or ONNX requires it in every run: the columns of a product's operand are the rows of its
    weight, all operands of a recurrent net have one batch. Equal dims get one name: the caller's, else the usual one
    (``N``, ``T``, ``C``, ``H``, ``W``) where no other dim has it, else the name of the first input with the dim. Dims
    that the caller named keep their names.

    The pass is after the recording of origins, which hold the dims for which operators were converted.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"graph", "opset", "origins"})
    ensures: ClassVar[frozenset[str]] = frozenset({"dims_named"})

    def __call__(self, state: Export) -> None:
        """Rename the dims of the model and complete its shapes."""
        if state.model is None or state.foreign:
            return
        graph = state.graph
        nodes = list(_nodes(graph))
        given = _given_names(state)
        classes = DimClasses()
        for a, b in state.traces.dims.equal:
            classes.join(a, b)
        tied = list(filter(has_equalities, nodes))
        for _ in range(_MOST_ROUNDS):
            _join(classes, tied)
            _rename(graph, nodes, _Canonical(classes, given))
            if not complete_shapes(graph, graph.opset_imports[""]):
                break
        canonical = _Canonical(classes, given)
        known = {canonical(symbol): role for symbol, role in reversed(state.traces.dims.roles.items())}
        usual = _usual_names(graph, nodes, given, known)
        if usual:
            _rename(graph, nodes, lambda symbol: usual.get(symbol, symbol))


def _join(classes: DimClasses, nodes: Iterable[ir.Node]) -> None:
    known: set[Hashable] = set()  # types, attributes and operands' shapes, by id, of which the dims are joined
    for node in nodes:
        shapes = tuple([None if value is None else id(value.shape) for value in node.inputs])
        key = (node.op_type, shapes, *map(id, node.attributes.values()))
        if key in known:
            continue
        known.add(key)
        for a, b in equalities(node):
            if a is not None and b is not None and a != b:
                classes.join(a, b)


class _Canonical:
    """The canonical form of each dim: its size, the caller's name, or the representative of its class."""

    def __init__(self, classes: DimClasses, given: Iterable[str]) -> None:
        self._classes = classes
        self._given = {*given}
        self._preferred = {classes.root(symbol): symbol for symbol in reversed([*given])}

    def __call__(self, symbol: str) -> int | str:
        if symbol in self._given:
            return symbol
        size = self._classes.size(symbol)
        if size is not None:
            return size
        root = self._classes.root(symbol)
        return self._preferred.get(root, root)


def _given_names(state: Export) -> dict[str, None]:
    """The names of dims that the caller, or an import, gave to inputs: all but the generated ones."""
    given: dict[str, None] = {}
    for name, info in state.inputs.items():
        described = state.options.described.get(name)
        spelled = () if described is None or described.shape is None else described.shape
        for axis, dim in enumerate(info.shape or ()):
            if isinstance(dim, str) and (dim != f"{name}_dim_{axis}" or dim in spelled):
                given[dim] = None
    return given


def _usual_names(
    graph: ir.Graph, nodes: Iterable[ir.Node], given: Iterable[str], known: Mapping[int | str, str]
) -> dict[str, str]:
    """The usual name of each dim of an input that has no name of the caller, where no other dim has it."""
    usual: dict[str, str] = {}
    for node in filter(has_roles, nodes):
        for named, role in roles(node):
            usual.setdefault(named, role)
    taken = {*given}
    names: dict[str, str] = {}
    for value in graph.inputs:
        for dim in value.shape or ():
            symbol = as_dim(dim)
            if not isinstance(symbol, str) or symbol in names or symbol in taken:
                continue
            name = known.get(symbol) or usual.get(symbol)
            if name is not None and name not in taken:
                names[symbol] = name
                taken.add(name)
    return names


def _rename(graph: ir.Graph, nodes: Iterable[ir.Node], name_of: Callable[[str], int | str]) -> None:
    """Replace the names in the shapes of all values. Equal new shapes are shared."""
    renamed: dict[tuple[int | ir.SymbolicDim, ...], ir.Shape | None] = {}
    seen: dict[int, tuple[ir.Shape, ir.Shape | None]] = {}  # by id; many values share a shape
    for value in _values(graph, nodes):
        shape = value.shape
        if shape is None:
            continue
        pair = seen.get(id(shape))
        if pair is None:
            dims = shape.dims
            if dims not in renamed:
                renamed[dims] = _renamed(shape, name_of)
            pair = seen[id(shape)] = (shape, renamed[dims])
        if pair[1] is not None:
            value.shape = pair[1]


def _renamed(shape: ir.Shape, name_of: Callable[[str], int | str]) -> ir.Shape | None:
    """The shape with other names; None if they are the same."""
    old = [as_dim(dim) for dim in shape]
    new = [name_of(dim) if isinstance(dim, str) else dim for dim in old]
    return None if new == old else ir.Shape(new)


def _nodes(graph: ir.Graph) -> Iterator[ir.Node]:
    """All nodes, each followed by those of its bodies."""
    for node in graph:
        yield node
        if node.op_type in WITH_BODIES:
            for body in bodies(node):
                yield from _nodes(body)


def _values(graph: ir.Graph, nodes: Iterable[ir.Node]) -> Iterator[ir.Value]:
    """The inputs and the values that nodes compute, in bodies too."""
    yield from graph.inputs
    for node in nodes:
        yield from node.outputs
        if node.op_type in WITH_BODIES:
            for body in bodies(node):
                yield from body.inputs

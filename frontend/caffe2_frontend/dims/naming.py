"""Names of dims: which dims of a graph are equal, and what each is called."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

import onnx_ir as ir

from caffe2_frontend.dims.classes import DimClasses
from caffe2_frontend.dims.operator_dims import equalities, has_equalities, has_roles, roles
from caffe2_frontend.interop.bodies import bodies
from caffe2_frontend.interop.input_hint import generated_name, usual_name
from caffe2_frontend.interop.operators import BODIES
from caffe2_frontend.interop.types import Dim
from caffe2_frontend.lowering.dim_facts import as_dim
from caffe2_frontend.state import Export

Canonical = Callable[[str], int | str]


def named_inputs(state: Export) -> Mapping[str, tuple[Dim, ...]]:
    """Return the shapes of the inputs of a lowered net, with one name for equal dims; None for a dim without a name.

    Names are those that the finished model will have. A class of dims without one is called ``N``, ``D``, ``H`` or
    ``W`` by the axis where nothing else is. The graph is not changed, nor are shapes of other values completed: rare
    equalities of dims are missing.
    """
    graph, given = state.graph, given_names(state)
    nodes = list(graph_nodes(graph))
    classes = DimClasses()
    for a, b in state.traces.dims.equal:
        classes.join(a, b)
    join_dims(classes, filter(has_equalities, nodes))
    canonical = CanonicalDims(classes, given)
    known = {canonical(symbol): role for symbol, role in reversed(state.traces.dims.roles.items())}
    names: dict[str, str | None] = {**usual_names(graph, nodes, given, known, canonical), **{dim: dim for dim in given}}
    shapes = {str(v.name): [_canonical(dim, canonical) for dim in v.shape] for v in graph.inputs if v.shape is not None}
    taken = set(filter(None, names.values()))
    for shape in shapes.values():
        for axis, dim in enumerate(shape):
            if isinstance(dim, str) and dim not in names:
                names[dim] = usual_name(axis, taken)
    return {name: tuple(names[dim] if isinstance(dim, str) else dim for dim in shape) for name, shape in shapes.items()}


def _canonical(dim: ir.SymbolicDim | int, canonical: Canonical) -> Dim:
    known = as_dim(dim)
    return canonical(known) if isinstance(known, str) else known


def join_dims(classes: DimClasses, nodes: Iterable[ir.Node]) -> None:
    """Join the dims that nodes require to be equal."""
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


class CanonicalDims:
    """The canonical form of each dim: its size, the caller's name, or the representative of its class."""

    def __init__(self, classes: DimClasses, given: Iterable[str]) -> None:
        self._classes = classes
        self._given = {*given}
        self._preferred = {classes.root(symbol): symbol for symbol in reversed([*given])}

    def __call__(self, symbol: str) -> int | str:
        """Return the canonical form of a name."""
        if symbol in self._given:
            return symbol
        size = self._classes.size(symbol)
        if size is not None:
            return size
        root = self._classes.root(symbol)
        return self._preferred.get(root, root)


def given_names(state: Export) -> dict[str, None]:
    """Return the names of dims that the caller, or an import, gave to inputs: all but the generated ones."""
    given: dict[str, None] = {}
    for name, info in state.inputs.items():
        described = state.options.described.get(name)
        spelled = () if described is None or described.shape is None else described.shape
        for axis, dim in enumerate(info.shape or ()):
            if isinstance(dim, str) and (dim != generated_name(name, axis) or dim in spelled):
                given[dim] = None
    return given


def usual_names(
    graph: ir.Graph,
    nodes: Iterable[ir.Node],
    given: Iterable[str],
    known: Mapping[int | str, str],
    canonical: Canonical,
) -> dict[str, str]:
    """Return the usual name of each dim of an input that has no name of the caller, where no other dim has it."""
    usual: dict[int | str, str] = {}
    for node in filter(has_roles, nodes):
        for named, role in roles(node):
            usual.setdefault(canonical(named), role)
    taken = {*given}
    names: dict[str, str] = {}
    for value in graph.inputs:
        for dim in value.shape or ():
            symbol = as_dim(dim)
            symbol = canonical(symbol) if isinstance(symbol, str) else symbol
            if not isinstance(symbol, str) or symbol in names or symbol in taken:
                continue
            name = known.get(symbol) or usual.get(symbol)
            if name is not None and name not in taken:
                names[symbol] = name
                taken.add(name)
    return names


def graph_nodes(graph: ir.Graph) -> Iterator[ir.Node]:
    """Yield all nodes, each followed by those of its bodies."""
    for node in graph:
        yield node
        if node.op_type in BODIES:
            for body in bodies(node):
                yield from graph_nodes(body)

"""Give equal dims one name, replace those that weights determine by numbers, and complete the shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar, Final

import onnx_ir as ir

from caffe2_bridge.passes import InPlacePass
from caffe2_frontend.dims.classes import DimClasses
from caffe2_frontend.dims.complete import complete_shapes
from caffe2_frontend.dims.naming import CanonicalDims, given_names, graph_nodes, join_dims, usual_names
from caffe2_frontend.dims.operator_dims import has_equalities
from caffe2_frontend.interop.bodies import bodies
from caffe2_frontend.interop.operators import BODIES
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
        nodes = list(graph_nodes(graph))
        given = given_names(state)
        classes = DimClasses()
        for a, b in state.traces.dims.equal:
            classes.join(a, b)
        tied = list(filter(has_equalities, nodes))
        for _ in range(_MOST_ROUNDS):
            join_dims(classes, tied)
            _rename(graph, nodes, CanonicalDims(classes, given))
            if not complete_shapes(graph, graph.opset_imports[""]):
                break
        canonical = CanonicalDims(classes, given)
        known = {canonical(symbol): role for symbol, role in reversed(state.traces.dims.roles.items())}
        usual = usual_names(graph, nodes, given, known, canonical)
        if usual:
            _rename(graph, nodes, lambda symbol: usual.get(symbol, symbol))


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
    """Return the shape with other names; None if they are the same."""
    old = [as_dim(dim) for dim in shape]
    new = [name_of(dim) if isinstance(dim, str) else dim for dim in old]
    return None if new == old else ir.Shape(new)


def _values(graph: ir.Graph, nodes: Iterable[ir.Node]) -> Iterator[ir.Value]:
    """Yield the inputs and the values that nodes compute, in bodies too."""
    yield from graph.inputs
    for node in nodes:
        yield from node.outputs
        if node.op_type in BODIES:
            for body in bodies(node):
                yield from body.inputs

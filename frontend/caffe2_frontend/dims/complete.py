"""Completion of shapes: dims that the conversion left unknown, inferred again from better known operands."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import onnx_ir as ir

from caffe2_frontend.dims.sizes import sizes
from caffe2_frontend.interop.bodies import bodies
from caffe2_frontend.interop.files.strip_weights import drop_generated_dim_names
from caffe2_frontend.interop.inference.node_inference import ShapeMismatchError
from caffe2_frontend.interop.operators import BODIES, SIZED_BY_NUMBERS
from caffe2_frontend.interop.types import Dim
from caffe2_frontend.lowering.dim_facts import as_dim
from caffe2_frontend.lowering.inference import infer_outputs


@dataclass(frozen=True, slots=True)
class _Completed:
    """The shapes of a node's outputs after their completion, whether any changed, and what these followed from."""

    shapes: Sequence[ir.Shape | None]
    changed: bool
    given: Sequence[ir.Shape | None]  # held, so that no other shape gets the id of one of them


def complete_shapes(graph: ir.Graph, opset: int) -> bool:
    """Fill unknown dims of a graph's values, and of its bodies, in the order of the nodes. Return whether any changed.

    Known dims stay. Every node is visited once; of the nodes with incomplete outputs that are alike, one is inferred.
    """
    return _Completion(opset).complete(graph)


class _Completion:
    def __init__(self, opset: int) -> None:
        self._opset = opset
        self._known: dict[Hashable, _Completed] = {}
        self._shapes: dict[tuple[int | ir.SymbolicDim, ...], ir.Shape] = {}
        self._complete: dict[int, ir.Shape] = {}  # by id, which many values share; held, so that ids stay unique

    def complete(self, graph: ir.Graph) -> bool:
        """Complete the shapes of a graph; return whether any changed."""
        changed = False
        for node in graph:
            if node.op_type in BODIES:
                for body in bodies(node):
                    _describe_formals(node, body)
                    changed |= self.complete(body)
            if any(map(self._is_incomplete, node.outputs)):
                key = _key(node)
                done = (None if key is None else self._known.get(key)) or self._inferred(node, key)
                changed |= done.changed
                for value, shape in zip(node.outputs, done.shapes, strict=True):
                    if value.shape is not shape:
                        value.shape = shape
        return changed

    def _is_incomplete(self, value: ir.Value) -> bool:
        shape = value.shape
        if id(shape) in self._complete:
            return False
        if shape is None or any(type(dim) is not int and as_dim(dim) is None for dim in shape.dims):
            return True
        self._complete[id(shape)] = shape
        return False

    def _inferred(self, node: ir.Node, key: Hashable | None) -> _Completed:
        """Return the completed shapes of a node's outputs, known by a key from now on. Equal ones are one object."""
        given = [value.shape for value in (*node.inputs, *node.outputs) if value is not None]
        changes = [_fill(*pair) for pair in zip(node.outputs, _inferred(node, self._opset), strict=True)]
        shapes = [value.shape for value in node.outputs]
        shared = [None if shape is None else self._shapes.setdefault(shape.dims, shape) for shape in shapes]
        done = _Completed(shared, any(changes), given)
        if key is not None:
            self._known[key] = done
        return done


def _key(node: ir.Node) -> Hashable | None:
    """Return what the shapes of a node's outputs follow from, by id; None where they follow from other nodes too.

    The graph holds attributes, types and constants. Of these, integers and the numbers of few operators affect shapes.
    """
    if node.op_type in _KNOWN:
        return None
    operands: list[Hashable] = []
    for value in node.inputs:
        if value is None:
            operands.append(None)
        else:
            constant = value.const_value
            is_weight = constant is None or (
                constant.dtype.is_floating_point() and node.op_type not in SIZED_BY_NUMBERS
            )
            operands.append((id(value.type), id(value.shape), None if is_weight else id(constant)))
    attributes = tuple(map(id, node.attributes.values())) if node.attributes else ()
    return node.domain, node.op_type, attributes, tuple(operands), tuple([id(value.shape) for value in node.outputs])


def _fill(value: ir.Value, shape: ir.Shape | None) -> bool:
    """Fill the unknown dims of a value's shape from another one."""
    if shape is None:
        return False
    if value.shape is None:
        value.shape = shape
        return True
    if len(value.shape) != len(shape):
        return False
    dims = [b if not isinstance(a, int) and a.value is None else a for a, b in zip(value.shape, shape, strict=True)]
    if dims == [*value.shape]:
        return False
    value.shape = ir.Shape(dims)
    return True


def _inferred(node: ir.Node, opset: int) -> Sequence[ir.Shape | None]:
    """Return the shapes of a node's outputs, as far as they follow from its operands."""
    if node.domain:
        return [None] * len(node.outputs)
    known = _KNOWN.get(node.op_type)
    if known is not None:
        found = known(node)
        if found is not None:
            return found
    return _inferred_by_onnx(node, opset)


def _inferred_by_onnx(node: ir.Node, opset: int) -> Sequence[ir.Shape | None]:
    before = [(value.type, value.shape) for value in node.outputs]
    with suppress(ShapeMismatchError):
        infer_outputs(node, opset)
    shapes = [drop_generated_dim_names(value.shape) for value in node.outputs]
    for value, (kind, shape) in zip(node.outputs, before, strict=True):
        value.type, value.shape = kind, shape
    return shapes


def _counted(size: Dim) -> Dim:
    """Return how many steps there are up to a limit: none up to a negative one."""
    return max(size, 0) if isinstance(size, int) else size


def _shape_of(dims: Iterable[Dim] | None) -> list[ir.Shape | None] | None:
    return None if dims is None else [ir.Shape(dims)]


def _range(node: ir.Node) -> list[ir.Shape | None] | None:
    """Range(0, n, 1) is [n]."""
    start, limit, step = (sizes(value) for value in node.inputs)
    return _shape_of(map(_counted, limit)) if limit and start == [0] and step == [1] else None


def _filled(node: ir.Node) -> list[ir.Shape | None] | None:
    """ConstantOfShape has the shape that it reads."""
    return _shape_of(sizes(node.inputs[0]))


def _reshaped(node: ir.Node) -> list[ir.Shape | None] | None:
    """Reshape has the shape that it reads: -1 is unknown, and 0 the operand's dim unless zeros are allowed."""
    dims = sizes(node.inputs[1])
    data = node.inputs[0]
    if dims is None or data is None:
        return None
    if all(isinstance(dim, int) for dim in dims):
        return None  # ONNX's inference knows more: the size of -1
    own = [None] * len(dims) if data.shape is None else [*data.shape, *[None] * len(dims)]
    copies = not node.attributes.get_int("allowzero", 0)
    kept = [own[axis] if dim == 0 and copies else dim for axis, dim in enumerate(dims)]
    return [ir.Shape([None if dim == -1 else dim for dim in kept])]


def _expanded(node: ir.Node) -> list[ir.Shape | None] | None:
    """Expand broadcasts its operand with the shape that it reads: a dim of 1 on one side is that of the other."""
    target, data = sizes(node.inputs[1]), node.inputs[0]
    if target is None or data is None or data.shape is None:
        return None
    rank = max(len(target), len(data.shape))
    ours = [1] * (rank - len(data.shape)) + [*data.shape]
    wanted = [1] * (rank - len(target)) + target
    dims = [_broadcast(ir.Shape([a])[0], ir.Shape([b])[0]) for a, b in zip(ours, wanted, strict=True)]
    return [ir.Shape(dims)]


def _broadcast(a: int | ir.SymbolicDim, b: int | ir.SymbolicDim) -> int | ir.SymbolicDim | None:
    if a == 1 or b == 1:
        return b if a == 1 else a
    for dim in (a, b):
        if isinstance(dim, int):
            return dim
    return a if a == b else None


def _where(node: ir.Node) -> list[ir.Shape | None] | None:
    """Where broadcasts its three operands: unlike ONNX's inference, a number wins over a name."""
    known = [value.shape for value in node.inputs if value is not None and value.shape is not None]
    if len(known) < len(node.inputs):
        return None
    rank = max(map(len, known))
    dims: list[int | ir.SymbolicDim | None] = [1] * rank
    for shape in known:
        for axis, dim in enumerate(shape, rank - len(shape)):
            dims[axis] = _broadcast(_some(dims[axis]), dim)
    return [ir.Shape(dims)]


def _some(dim: int | ir.SymbolicDim | None) -> int | ir.SymbolicDim:
    return ir.SymbolicDim(None) if dim is None else dim


def _branches(node: ir.Node) -> list[ir.Shape | None] | None:
    """Return the dims in which both branches of an If agree."""
    then, other = (node.attributes[name].as_graph().outputs for name in ("then_branch", "else_branch"))
    return [_common(a.shape, b.shape) for a, b in zip(then, other, strict=True)]


def _common(a: ir.Shape | None, b: ir.Shape | None) -> ir.Shape | None:
    if a is None or b is None or len(a) != len(b):
        return None
    return ir.Shape([x if x == y else None for x, y in zip(a, b, strict=True)])


def _scanned(node: ir.Node) -> list[ir.Shape | None] | None:
    """Return the shapes of a Scan's states, which it keeps; rows are stacked along axis 0."""
    if "scan_input_axes" in node.attributes or "scan_output_axes" in node.attributes:
        return None
    body = node.attributes["body"].as_graph()
    states = len(node.inputs) - node.attributes["num_scan_inputs"].as_int()
    first = node.inputs[states]
    steps = None if first is None or first.shape is None else first.shape[0]
    shapes = [value.shape if value is not None else None for value in node.inputs[:states]]
    return shapes + [_stacked(steps, value.shape) for value in body.outputs[states:]]


def _looped(node: ir.Node) -> list[ir.Shape | None] | None:
    """Return the dims in which a Loop's states before and after a step agree; rows are stacked along axis 0."""
    body = node.attributes["body"].as_graph()
    states = len(node.inputs) - 2
    finals = zip(node.inputs[2:], body.inputs[2:], body.outputs[1:], strict=False)
    shapes = [
        _common(_common(None if start is None else start.shape, formal.shape), after.shape)
        for start, formal, after in finals
    ]
    limit = sizes(node.inputs[0])
    always = node.inputs[1] is None or node.inputs[1].const_value is not None
    keeps = body.outputs[0].producer()
    unconditional = always and keeps is not None and keeps.op_type == "Identity" and keeps.inputs[0] is body.inputs[1]
    steps = _some(None) if not limit or not unconditional else ir.Shape([_counted(limit[0])])[0]
    return shapes + [_stacked(steps, value.shape) for value in body.outputs[1 + states :]]


def _stacked(steps: int | ir.SymbolicDim | None, row: ir.Shape | None) -> ir.Shape | None:
    return None if row is None else ir.Shape([steps, *row])


def _describe_formals(node: ir.Node, body: ir.Graph) -> None:
    """Give a Scan's formal inputs the shapes that follow from its operands; a Loop's may change from step to step."""
    if node.op_type != "Scan" or node.domain or "scan_input_axes" in node.attributes:
        return
    states = len(node.inputs) - node.attributes["num_scan_inputs"].as_int()
    for index, (value, formal) in enumerate(zip(node.inputs, body.inputs, strict=True)):
        if value is not None and value.shape is not None:
            _fill(formal, value.shape if index < states else ir.Shape(list(value.shape)[1:]))


_KNOWN: Final[Mapping[str, Callable[[ir.Node], list[ir.Shape | None] | None]]] = {
    "ConstantOfShape": _filled,
    "Expand": _expanded,
    "If": _branches,
    "Loop": _looped,
    "Range": _range,
    "Reshape": _reshaped,
    "Scan": _scanned,
    "Where": _where,
}

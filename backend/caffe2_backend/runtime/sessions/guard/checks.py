"""What is checked of a model when a session is made, before its runs and in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import onnx

from caffe2_backend.admission.scopes import GraphScope, scopes_of
from caffe2_backend.runtime.sessions.guard.edits import Edit
from caffe2_backend.runtime.sessions.guard.shapes import Shapes
from caffe2_bridge.diagnostics import ConversionError, RunError
from caffe2_frontend.interop.native_limits import (
    GUARDED,
    JOINED,
    NEED_RANKS,
    Dims,
    Key,
    Need,
    key_of,
    needs_of,
    operand_faults,
)

# Operators that end the process while the model is loaded if their last operand is listed, and left out.
_TRIMMED: Final = frozenset({("", "LayerNormalization")})
# The types of the operators that are looked at, as they are in a serialized model.
OPERATORS: Final = frozenset(op_type.encode() for _, op_type in GUARDED | JOINED | _TRIMMED)


@dataclass(frozen=True, slots=True)
class InputNeed:
    """What an input of a model must be.

    Attributes:
        input: its name.
        need: what it must be; the operand is that of the node.
        node: the node that it is for, in messages.
    """

    input: str
    need: Need
    node: str


@dataclass(frozen=True)
class Checks:
    """What is checked of inputs, and what is changed in the model."""

    inputs: tuple[InputNeed, ...] = ()
    edits: tuple[Edit, ...] = ()


def checks_of(outline: onnx.ModelProto) -> Checks:
    """Return the checks of a model, of which the weights are not needed.

    Raises RunError for a node that ends the process whatever the inputs are.
    """
    try:
        scopes = scopes_of(outline)
    except ConversionError:  # nested too deeply: onnxruntime refuses it
        return Checks()
    collector = _Collector(outline)
    for index, scope in enumerate(scopes):
        collector.add(index, scope)
    return Checks(tuple(dict.fromkeys(collector.inputs)), tuple(collector.edits))


class _Collector:
    """Collects the checks of nodes; infers shapes when the first is needed that the weights do not give."""

    def __init__(self, outline: onnx.ModelProto) -> None:
        self._outline = outline
        self._shapes: Shapes | None = None
        inputs = {info.name for info in outline.graph.input}
        self._has_unknown_ranks = any(not info.type.tensor_type.HasField("shape") for info in outline.graph.input)
        self._weights: Mapping[str, Dims] = {
            tensor.name: list(tensor.dims) for tensor in outline.graph.initializer if tensor.name not in inputs
        }
        self.inputs: list[InputNeed] = []
        self.edits: list[Edit] = []

    def add(self, index: int, scope: GraphScope) -> None:
        """Add the checks of the nodes of a scope."""
        for at, node in enumerate(scope.nodes):
            key = key_of(node)
            label = f"{node.op_type} {node.name!r}" if node.name else node.op_type
            if key in _TRIMMED and node.input and not node.input[-1]:
                self.edits.append(Edit(index, at, label))
            if key in GUARDED:
                edit = Edit(index, at, label)
                for need in self._open(node, key, edit):
                    self._require(node.input[need.operand], replace(edit, need=need))
            if key in JOINED and self._has_unknown_ranks:
                edit = Edit(index, at, label)
                for need in self._joined(node, edit):
                    self._require(node.input[need.operand], replace(edit, need=need))

    def _open(self, node: onnx.NodeProto, key: Key, edit: Edit) -> Iterator[Need]:
        """Yield what is needed of the operands of a node, but for what weights are. Raises RunError."""
        names = list(node.input)
        given = list(map(bool, names))
        needs = [] if key in NEED_RANKS else list(needs_of(key, given, [None] * len(given)))
        if needs and all(_holds(need, self._weights.get(names[need.operand])) for need in needs):
            return
        operands = [self._dims(edit.scope, name) for name in node.input]
        integers = {a.name: a.i for a in node.attribute if a.type == onnx.AttributeProto.INT}
        for reason in operand_faults(key, integers, given, operands):
            raise RunError(f"{edit.label}: {reason}: onnxruntime would end the process")
        ranks = [None if dims is None else len(dims) for dims in operands]
        for need in needs_of(key, given, ranks):
            is_constant = need.is_divisor and node.input[need.operand] in self._weights  # admission has seen its value
            if not is_constant and not _holds(need, operands[need.operand]):
                yield need

    def _joined(self, node: onnx.NodeProto, edit: Edit) -> Iterator[Need]:
        """Yield the ranks of the operands that are unknown, where that of another one is known."""
        operands = [self._dims(edit.scope, name) for name in node.input]
        ranks = {len(dims) for dims in operands if dims is not None}
        if len(ranks) == 1:
            yield from (Need(index, rank=min(ranks)) for index, dims in enumerate(operands) if dims is None)

    def _dims(self, scope: int, name: str) -> Dims | None:
        if not name or name in self._weights:
            return self._weights.get(name)
        return self._inferred.dims(scope, name)

    @property
    def _inferred(self) -> Shapes:
        if self._shapes is None:
            self._shapes = Shapes(self._outline)
        return self._shapes

    def _require(self, name: str, edit: Edit) -> None:
        """Check an operand where it is known: before a run if it depends on inputs alone, else by nodes."""
        need = edit.need
        assert need is not None
        shapes = self._inferred
        dims = self._dims(edit.scope, name)
        if name in shapes.inputs and (dims is None or need.is_divisor) and edit.scope == 0:
            self.inputs.append(InputNeed(name, need, edit.label))
            return
        if dims is None or need.is_divisor:
            self.edits.append(edit)
            return
        sizes = [dims[axis] for axis in need.within(len(dims))]
        unknown = [size for size in sizes if not isinstance(size, int)]
        if all(isinstance(size, str) and size in shapes.places for size in unknown):
            for size in unknown:
                for place, axis in shapes.places[str(size)]:
                    self.inputs.append(InputNeed(place, replace(need, axes=(axis,)), edit.label))
        else:
            self.edits.append(edit)


def _holds(need: Need, dims: Dims | None) -> bool:
    """Whether an operand of these dims is certainly what is needed."""
    if dims is None or need.is_divisor:
        return False
    if need.rank is not None:
        return len(dims) == need.rank
    if need.has_dims:
        return bool(dims)
    sizes = [dims[axis] for axis in need.within(len(dims))]
    return all(isinstance(size, int) and size > 0 for size in sizes)

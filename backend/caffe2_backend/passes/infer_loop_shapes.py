"""Infer the shapes of the states of Loop and Scan, whatever the bodies declare."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

import onnx_ir as ir

from caffe2_backend.passes.flatten import completed, infer, type_formals
from caffe2_backend.restore.restored_nodes import DOMAIN
from caffe2_backend.state import WORKING_OPSET, Import
from caffe2_bridge.passes import InPlacePass
from caffe2_frontend.interop.bodies import all_nodes, has_bodies
from caffe2_frontend.interop.domains import is_standard
from caffe2_frontend.interop.files.strip_weights import drop_generated_dim_names
from caffe2_frontend.interop.inference.node_inference import infer_if_possible
from caffe2_frontend.interop.operators import LOOPS

_OWN_FORMALS: Final = 2  # the iteration number and the condition of a Loop's body
_SCAN_WITHOUT_BATCH: Final = 9  # the first opset of Scan without a batch axis


class InferLoopShapes(InPlacePass[Import]):
    """Replace the declared shapes of bodies' inputs by shapes that hold at every iteration.

    Exporters declare the shape of the initial value, also where the state grows. The shape of a state of a Loop is the
    join of those of its initial value and of the body's output, which follows from the state's own shape: their fixed
    point, from the initial shape downwards in the lattice of partially known shapes. That of a state of a Scan, which
    cannot change, is the initial one. The declared shapes of intermediate values are ignored too; of values of unknown
    rank the declared rank is assumed, and of results of a Scan's body the declared dims.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"inlined"})
    ensures: ClassVar[frozenset[str]] = frozenset({"loop shapes"})

    def __call__(self, state: Import) -> None:
        """Infer the shapes of the model's states."""
        infer_loop_shapes(state.model)


def infer_loop_shapes(model: ir.Model) -> None:
    """Infer the shapes of the states of a model's loops, in place."""
    nodes = list(all_nodes(model.graph))
    scans = model.opset_imports.get("", _SCAN_WITHOUT_BATCH) >= _SCAN_WITHOUT_BATCH
    kinds = LOOPS if scans else LOOPS - {"Scan"}
    loops = [node for node in nodes if node.op_type in kinds and is_standard(node)]
    if loops:
        _Inference(model, loops, is_exact=not any(map(_is_inferred_wrong, nodes))).run()


def _is_inferred_wrong(node: ir.Node) -> bool:
    """Whether ONNX infers another rank than exporters mean: SplitToSequence with sizes ignores ``keepdims``."""
    return node.op_type == "SplitToSequence" and not node.attributes.get_int("keepdims", 1)


@dataclass(eq=False)
class _State:
    """A state of a loop.

    Attributes:
        node: the loop.
        formal: the input of the body.
        initial: the initial value.
        result: the output of the body; None where it has the shape of the initial value.
        last: the output of the loop.
        declared: the declared shape of the formal.
        is_set: whether the formal's shape is a first assumption or a join.
        is_started: whether the first assumption was the shape of the initial value.
    """

    node: ir.Node
    formal: ir.Value
    initial: ir.Value | None
    result: ir.Value | None
    last: ir.Value | None
    declared: ir.Shape | None
    is_set: bool = False
    is_started: bool = False

    def start(self) -> bool:
        """Assume the initial shape. Return whether it is known."""
        if self.initial is None or self.initial.shape is None:
            return False
        self.formal.shape, self.is_set, self.is_started = ir.Shape(self.initial.shape), True, True
        return True

    def give_up(self) -> None:
        """Assume what is declared, since the initial shape is not known: the rank alone where the state may change."""
        self.formal.shape = self.declared if self.result is None else _rank_of(self.declared)
        self.is_set = True

    def join(self, *, is_exact: bool) -> bool:
        """Join the initial shape and that of the body's output with the formal's. Return whether that changed.

        The initial value may follow from another loop, whose states were joined since. Unless inference is exact,
        another rank is ignored.
        """
        old = self.formal.shape
        if old is None:
            return False
        new: ir.Shape | None = old
        if self.is_started and self.initial is not None:
            new = self._joined(old, self.initial.shape, is_exact=is_exact)
        if new is not None and self.result is not None and self.result is not self.formal:
            new = self._joined(new, self.result.shape, is_exact=is_exact)
        self.formal.shape = new
        return new != old

    def _joined(self, old: ir.Shape, other: ir.Shape | None, *, is_exact: bool) -> ir.Shape | None:
        if other is not None and (is_exact or len(other) == len(old)):
            return _join(old, other)
        return _rank_of(old) if self.declared is not None and len(self.declared) == len(old) else None


class _Inference:
    """The fixed point over all loops of a model at once: inner states follow from outer ones and the reverse."""

    def __init__(self, model: ir.Model, loops: list[ir.Node], *, is_exact: bool) -> None:
        self._model = model
        self._opset = model.opset_imports.get("", WORKING_OPSET)
        self._is_exact = is_exact
        self._states_of = {node: list(_states(node)) for node in loops}
        self._states = [state for states in self._states_of.values() for state in states]
        scans = [node for node in loops if node.op_type == "Scan"]
        # The declared shapes of sequences' elements.
        self._elements = {
            formal: formal.shape for node in scans for formal in _bodys_inputs(node)[_count_of_states(node) :]
        }
        self._declared: dict[ir.Value, ir.Shape | None] = {}
        # The results of an iteration of Scan, whose shape is that of any other.
        self._outputs = {value for node in scans for value in node.attributes["body"].as_graph().outputs}
        # What the model declares of results that nothing else reads is true of them.
        self._results = {value: value.shape for value in model.graph.outputs if not value.uses()}
        for node in all_nodes(model.graph):
            for value in node.outputs:
                if is_standard(node) and value not in self._results:
                    self._declared[value] = value.shape
                elif node.domain != DOMAIN and node.graph is not model.graph:  # of an operator that cannot be inferred
                    value.shape = _rank_of(value.shape)

    def run(self) -> None:
        """Set the shapes of all formals, and of the values that follow from them."""
        for state in self._states:
            state.formal.shape = None
        while True:
            self._infer()
            if self._start():
                continue
            if not self._give_up() and not sum(state.join(is_exact=self._is_exact) for state in self._states):
                break
        for value, shape in self._declared.items():
            if value in self._outputs:
                value.shape = completed(value.shape, shape)
            elif value.shape is None:
                node = value.producer()
                inner = node is not None and node.graph is not self._model.graph
                value.shape = _rank_of(shape) if inner else shape
        infer(self._model)

    def _start(self) -> bool:
        """Assume the initial shapes of states whatever they are by now. Return whether there are any.

        Of loops that follow one another, each begins with what the one before leaves: the shapes of the nodes between
        them are inferred one by one here, so that all begin at once. The model's are inferred anew then.
        """
        started = sum(state.start() for state in self._states if not state.is_set)  # every one, not the first alone
        if not started:
            return False
        for node in self._model.graph:
            if node not in self._states_of:
                _infer_outputs(node, self._opset)
            for state in self._states_of.get(node, ()):
                if not state.is_set:
                    state.start()
                if state.last is not None and state.last.shape is None and state.formal.shape is not None:
                    state.last.shape = ir.Shape(state.formal.shape)
        return True

    def _give_up(self) -> bool:
        """Assume what the first body with an input of unknown shape declares. Return whether there is one."""
        unset = [state for state in self._states if not state.is_set]
        for state in unset:
            if state.node is unset[0].node:
                state.give_up()
        if not unset:
            unknown = [formal for formal in self._elements if formal.shape is None]
            for formal in unknown:
                formal.shape = self._elements.pop(formal)
            return any(formal.shape is not None for formal in unknown)
        return True

    def _infer(self) -> None:
        for value in (*self._declared, *self._elements):
            value.shape = None
        for value, shape in self._results.items():
            value.shape = shape
        infer(self._model)
        while type_formals(self._model):
            infer(self._model)


def _states(node: ir.Node) -> Iterator[_State]:
    formals, body = _bodys_inputs(node), node.attributes["body"].as_graph()
    outputs = [*node.outputs, *[None] * len(formals)]  # the last ones may be left out
    if node.op_type == "Loop":
        states = zip(formals[_OWN_FORMALS:], node.inputs[_OWN_FORMALS:], body.outputs[1:], outputs, strict=False)
        for formal, initial, result, last in states:
            if not isinstance(formal.type, ir.SequenceType | ir.OptionalType):
                yield _State(node, formal, initial, result, last, formal.shape)
    else:
        for formal, initial, last in zip(formals[: _count_of_states(node)], node.inputs, outputs, strict=False):
            yield _State(node, formal, initial, None, last, formal.shape)


def _infer_outputs(node: ir.Node, opset: int) -> None:
    """Infer the shapes of a node's outputs that are not known from those of its operands, if it has no bodies."""
    if all(value.shape is not None for value in node.outputs) or has_bodies(node) or not is_standard(node):
        return
    for value, kind in zip(node.outputs, infer_if_possible(node, opset), strict=False):
        if value.shape is None and kind is not None:
            value.shape = drop_generated_dim_names(ir.serde.deserialize_type_proto_for_shape(kind))


def _bodys_inputs(node: ir.Node) -> list[ir.Value]:
    return list(node.attributes["body"].as_graph().inputs)


def _count_of_states(node: ir.Node) -> int:
    return len(node.inputs) - node.attributes.get_int("num_scan_inputs", 0)


def _rank_of(shape: ir.Shape | None) -> ir.Shape | None:
    return None if shape is None else ir.Shape([None] * len(shape))


def _join(one: ir.Shape, other: ir.Shape) -> ir.Shape | None:
    """Return what two shapes have in common; None where their ranks differ."""
    if len(one) != len(other):
        return None
    return ir.Shape([a if a == b else None for a, b in zip(one, other, strict=True)])

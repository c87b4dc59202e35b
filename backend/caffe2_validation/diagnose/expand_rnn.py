"""Expansion of ONNX's LSTM, GRU and RNN to a Scan, gate by gate, following the equations of ONNX's specification."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.interop.domains import is_standard
from caffe2_frontend.interop.operators import PLAIN_ACTIVATIONS, RECURRENT
from caffe2_frontend.interop.rewriting.node_emitter import NodeEmitter

# Metadata key of nodes of an expansion: the type of the recurrent operator.
EXPANDED: Final = "expanded"
# Its value for nodes that only select an initial state.
STATE: Final = "state"
Emit = Callable[..., Any]

_PLAIN: Final = {name.lower(): name for name in PLAIN_ACTIVATIONS}
_DIRECTIONS: Final = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


def expand_recurrent(model: ir.Model) -> int:
    """Expand every LSTM, GRU and RNN for which it is possible, and return their number.

    Outside of the loop are the products of the inputs, [T,N,H] for each gate; inside, the gates of one step, [N,H].
    Nodes with batch-first layout, or with activations that have parameters, are not changed.
    """
    nodes = [node for node in ir.traversal.RecursiveGraphIterator(model.graph) if can_expand(node)]
    for node in nodes:
        _Cell(node).expand()
    return len(nodes)


def can_expand(node: ir.Node) -> bool:
    """Whether a node is an LSTM, GRU or RNN that :func:`expand_recurrent` expands."""
    if not is_standard(node) or node.op_type not in RECURRENT or node.attributes.get_int("layout"):
        return False
    names = node.attributes.get_strings("activations", ())
    fits = node.attributes.get_string("direction", "forward") in _DIRECTIONS
    return fits and all(name.lower() in _PLAIN for name in names)


class _Nodes(NodeEmitter):
    """Nodes in order. Values are numbered after ``prefix``, so that equal nodes lead to equal names."""

    def __init__(self, prefix: str, metadata: Mapping[str, str]) -> None:
        super().__init__(metadata)
        self.prefix, self._label = prefix, ""

    def emit(self, op_type: str, *inputs: ir.Value | None, name: str = "", **attributes: Any) -> ir.Value:
        """Emit a node of one output, which is named after ``name``, or its type."""
        self._label = name
        return super().emit(op_type, *inputs, **attributes)

    def _name(self, node: ir.Node) -> None:
        node.name = f"{self.prefix}/{self._label or node.op_type}_{len(self.nodes)}"
        self._label = ""
        for i, value in enumerate(node.outputs):
            value.name = node.name if i == 0 else f"{node.name}_{i}"


class _Cell:
    def __init__(self, node: ir.Node) -> None:
        self._node, self._kind, self._facts = node, node.op_type, RECURRENT[node.op_type]
        self._prefix = str(node.outputs[0].name or node.name or node.op_type)
        if not node.outputs[0].name:
            self._prefix = next((str(v.name) for v in node.outputs if v.name), self._prefix)
        self._metadata = {**node.metadata_props, EXPANDED: node.op_type}
        self._out = _Nodes(f"{self._prefix}/{self._kind}", self._metadata)
        self._directions = _DIRECTIONS[node.attributes.get_string("direction", "forward") or "forward"]
        usual = self._facts.activations * len(self._directions)
        given = node.attributes.get_strings("activations", ()) or ()
        self._activations = [_PLAIN[name.lower()] for name in given] or [*usual]
        self._clip = node.attributes.get_float("clip", 0.0)

    def _input(self, index: int) -> ir.Value | None:
        return self._node.inputs[index] if index < len(self._node.inputs) else None

    def expand(self) -> None:
        """Replace the node by its expansion."""
        found = [self._direction(d, back) for d, back in enumerate(self._directions)]
        emit, one = self._out.emit, self._out.const(np.array([1], np.int64))
        zero = self._out.const(np.array([0], np.int64))
        results = [_joined(emit, [emit("Unsqueeze", steps, one) for steps, _ in found], 1)]
        results += [
            _joined(emit, [emit("Unsqueeze", states[k], zero) for _, states in found], 0)
            for k in range(self._facts.states)
        ]
        graph = self._node.graph
        assert graph is not None
        outputs = [value for value in self._node.outputs if value.name]
        new = [results[value.index() or 0] for value in outputs]
        for made, value in zip(new, outputs, strict=True):
            made.name, made.type, made.shape = value.name, value.type, value.shape
        ir.convenience.replace_nodes_and_values(graph, self._node, [self._node], self._out.nodes, outputs, new)

    def _direction(self, d: int, back: bool) -> tuple[ir.Value, list[ir.Value]]:
        """Return the results of one direction: the outputs of all steps, [T,N,H], and the last states, [N,H]."""
        emit, const = self._out.emit, self._out.const
        x, lengths = self._node.inputs[0], self._input(4)
        index = const(np.array(d, np.int64))

        def part(position: int) -> Any:
            value = self._input(position)
            return None if value is None else emit("Gather", value, index, axis=0)

        steps = emit("Squeeze", emit("Shape", x, start=0, end=1))
        batch = emit("Shape", x, start=1, end=2)
        if lengths is None:
            lengths = emit("Expand", emit("Cast", steps, to=int(ir.DataType.INT32)), batch)
        wide = emit("Cast", lengths, to=int(ir.DataType.INT64))
        if back:
            x = emit("ReverseSequence", x, wide, time_axis=0, batch_axis=1)
        number = emit("Unsqueeze", emit("Range", const(np.int64(0)), steps, const(np.int64(1))), const([1]))
        valid = emit("Unsqueeze", emit("Less", number, wide), const([2]), name="valid")

        gates = self._facts.gates
        recurrence, biases = part(2), part(3)
        weights, recurrences = (self._split(v, len(gates)) for v in (part(1), recurrence))
        bias = self._split(biases, 2 * len(gates)) if biases is not None else [None] * (2 * len(gates))
        rows = [
            self._affine(emit, x, w, b, f"input_{gate}")
            for gate, w, b in zip(gates, weights, bias[: len(gates)], strict=True)
        ]
        hidden = emit("Shape", recurrence, start=1, end=2)
        zeros = emit("CastLike", emit("ConstantOfShape", emit("Concat", batch, hidden, axis=0)), x)
        initial = [part(5 + k) for k in range(self._facts.states)]
        for value in initial:
            if value is not None:
                value.producer().metadata_props[EXPANDED] = STATE
        states = [zeros if value is None else value for value in initial]
        peepholes = part(7) if self._kind == "LSTM" and self._input(7) is not None else None
        peeps = self._split(peepholes, 3) if peepholes is not None else [None] * 3
        transposed = [emit("Transpose", r, perm=[1, 0]) for r in recurrences]
        each = len(self._facts.activations)
        body = self._body(d, transposed, bias[len(gates) :], peeps, self._activations[d * each : (d + 1) * each])
        found = self._out.several(
            len(states) + 1, "Scan", *states, *rows, valid, body=body, num_scan_inputs=len(rows) + 1
        )  # fmt: skip
        y = emit("ReverseSequence", found[-1], wide, time_axis=0, batch_axis=1) if back else found[-1]
        return y, list(found[:-1])

    def _body(
        self,
        d: int,
        recurrences: Sequence[Any],
        biases: Sequence[Any],
        peeps: Sequence[Any],
        activations: Sequence[str],
    ) -> ir.Graph:
        inner = _Nodes(f"{self._prefix}/{self._kind}_{d}/step", self._metadata)
        count, gates = self._facts.states, self._facts.gates
        names = [*("h", "c")[:count], *(f"row_{gate}" for gate in gates), "valid_t"]
        formal = [ir.Value(name=f"{inner.prefix}/{name}") for name in names]
        states, rows, valid = formal[:count], formal[count:-1], formal[-1]
        made = getattr(self, f"_{self._kind.lower()}")(inner, states, rows, recurrences, biases, peeps, activations)
        after = [inner.emit("Where", valid, new, old, name="state") for new, old in zip(made, states, strict=True)]
        zero = inner.emit("CastLike", inner.const(np.float32(0)), made[0])
        steps = inner.emit("Where", valid, made[0], zero, name="output")
        return ir.Graph(formal, [*after, steps], nodes=inner.nodes, name=f"{self._kind}_{d}_step")

    def _gate(self, inner: _Nodes, name: str, *addends: Any, activation: str) -> Any:
        """Apply the activation to a (clipped) sum."""
        total = None
        for addend in addends:
            if addend is not None:
                total = addend if total is None else inner.emit("Add", total, addend, name=f"{name}_sum")
        if self._clip:
            low, high = (inner.emit("CastLike", inner.const(np.float32(v)), total) for v in (-self._clip, self._clip))
            total = inner.emit("Clip", total, low, high)
        return inner.emit(activation, total, name=name)

    def _lstm(
        self, inner: _Nodes, states: Any, rows: Any, recurrences: Any, biases: Any, peeps: Any, activations: Any
    ) -> list[Any]:
        h, c = states
        emit = inner.emit
        parts = [
            self._affine(emit, h, r, b, f"hidden_{g}", transposed=True)
            for g, r, b in zip("iofc", recurrences, biases, strict=True)
        ]
        seen = [None if p is None else emit("Mul", p, c, name="peephole") for p in (peeps[0], peeps[2])]
        f, g, k = activations
        i = self._gate(inner, "i", rows[0], parts[0], seen[0], activation=f)
        if self._node.attributes.get_int("input_forget", 0):
            forget = emit("Sub", emit("CastLike", inner.const(np.float32(1)), i), i, name="f")
        else:
            forget = self._gate(inner, "f", rows[2], parts[2], seen[1], activation=f)
        candidate = self._gate(inner, "c", rows[3], parts[3], activation=g)
        cell = emit("Add", emit("Mul", forget, c), emit("Mul", i, candidate), name="cell")
        late = None if peeps[1] is None else emit("Mul", peeps[1], cell, name="peephole")
        o = self._gate(inner, "o", rows[1], parts[1], late, activation=f)
        return [emit("Mul", o, emit(k, cell), name="hidden"), cell]

    def _gru(
        self, inner: _Nodes, states: Any, rows: Any, recurrences: Any, biases: Any, _peeps: Any, activations: Any
    ) -> list[Any]:
        (h,) = states
        emit = inner.emit
        f, g = activations
        gates = []
        for k, gate in ((1, "r"), (0, "z")):
            part = self._affine(emit, h, recurrences[k], biases[k], f"hidden_{gate}", transposed=True)
            gates.append(self._gate(inner, gate, rows[k], part, activation=f))
        r, z = gates
        if self._node.attributes.get_int("linear_before_reset", 0):
            late = emit("Mul", r, self._affine(emit, h, recurrences[2], biases[2], "hidden_h", transposed=True))
        else:
            late = self._affine(emit, emit("Mul", r, h), recurrences[2], biases[2], "hidden_h", transposed=True)
        candidate = self._gate(inner, "h", rows[2], late, activation=g)
        rest = emit("Sub", emit("CastLike", inner.const(np.float32(1)), z), z)
        return [emit("Add", emit("Mul", rest, candidate), emit("Mul", z, h), name="hidden")]

    def _rnn(
        self, inner: _Nodes, states: Any, rows: Any, recurrences: Any, biases: Any, _peeps: Any, activations: Any
    ) -> list[Any]:
        part = self._affine(inner.emit, states[0], recurrences[0], biases[0], "hidden_i", transposed=True)
        return [self._gate(inner, "hidden", rows[0], part, activation=activations[0])]

    def _split(self, value: Any, count: int) -> Sequence[Any]:
        return self._out.several(count, "Split", value, axis=0, num_outputs=count)

    @staticmethod
    def _affine(emit: Emit, x: Any, weight: Any, bias: Any, name: str, *, transposed: bool = False) -> Any:
        matrix = weight if transposed else emit("Transpose", weight, perm=[1, 0])
        product = emit("MatMul", x, matrix, name=name)
        return product if bias is None else emit("Add", product, bias, name=f"{name}_bias")


def _joined(emit: Emit, values: Sequence[Any], axis: int) -> Any:
    return values[0] if len(values) == 1 else emit("Concat", *values, axis=axis)

"""ONNX's Scan as RecurrentNetwork, or as ONNXWhile where a RecurrentNetwork cannot carry what it does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from caffe2_backend.emit.loops import LoopBody, emit_loop
from caffe2_backend.emit.selection import gather, reverse, transpose
from caffe2_backend.emit.shapes import arange, dim_of
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.types import UNDEFINED
from caffe2_backend.lowering.value import Value
from caffe2_backend.recurrent.network import recurrent_network
from caffe2_backend.recurrent.rows import RowPlan, plan_rows
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef
from caffe2_frontend.interop.types import FLOAT, INT64

family = Family("scan")


@dataclass(frozen=True)
class _Way:
    """The axis that is scanned, and whether from its end."""

    axis: int
    backward: bool


@dataclass(frozen=True)
class _Sequence:
    """A scan input, and the body's name of its row."""

    operand: ir.Value
    way: _Way
    row: str

    @property
    def is_linkable(self) -> bool:
        """Whether it is float, which a step net can be linked to, and not known to be empty."""
        return self.operand.dtype == FLOAT and self.operand.shape is not None and 0 not in self.operand.shape

    def value(self, op: Op) -> Value:
        """Return the operand."""
        return _value(op, self.operand)

    def from_first(self, op: Op) -> Value:
        """Return the operand with the steps along axis 0, in their order."""
        rank = 0 if self.operand.shape is None else len(self.operand.shape)
        axis = self.way.axis
        value = transpose(op, self.value(op), [axis, *range(axis), *range(axis + 1, rank)])
        return reverse(op, value, 0, dim_of(op, value, 0)) if self.way.backward else value

    def emit_row(self, op: Op, number: Value, last: Value | None) -> None:
        """Emit the row of a step under its name in the body; its number, and that of the last step, are int64 [1]."""
        index = last - number if self.way.backward and last is not None else number
        row = gather(op, self.value(op), self.way.axis, index)
        _emit_named(op, op.emit("Squeeze", row, dims=[self.way.axis]), self.row)


@dataclass(frozen=True)
class _Scan:
    """A Scan: body, states before the first step, scan inputs, and the axes along which its outputs are stacked."""

    body: ir.Graph
    initial: tuple[ir.Value, ...]
    sequences: tuple[_Sequence, ...]
    outputs: tuple[_Way, ...]

    @property
    def states(self) -> list[str]:
        """The body's names of the states before a step."""
        return [str(value.name) for value in self.body.inputs[: len(self.initial)]]

    @property
    def results(self) -> list[str]:
        """The body's names of the states after a step, and of what is stacked."""
        return [str(value.name) for value in self.body.outputs]

    def steps(self, op: Op) -> Value:
        """Return the number of steps, int64 [1]."""
        return dim_of(op, self.sequences[0].value(op), self.sequences[0].way.axis)

    def last(self, op: Op) -> Value | None:
        """Return the number of the last step, int64 [1]; None where no sequence is scanned from its end."""
        if not any(sequence.way.backward for sequence in self.sequences):
            return None
        return self.steps(op) - op.const([1], INT64)


def _value(op: Op, operand: ir.Value) -> Value:
    return op.blob(str(operand.name), operand.dtype or UNDEFINED, operand.shape)


@family.converts("Scan")
def scan(op: Op) -> tuple[Value, ...]:
    """``Scan(*initial_state_and_scan_inputs; body, num_scan_inputs, ...) -> *final_state_and_scan_outputs``.

    RecurrentNetwork where float states of one batch hold all values, else ONNXWhile.
    """
    parts = _read(op)
    linkable = [i for i, sequence in enumerate(parts.sequences) if sequence.is_linkable]
    scanned = [(sequence.operand, sequence.way.axis) for sequence in parts.sequences]
    plan = plan_rows(op, parts.body, parts.initial, scanned, linkable)
    made = _while(op, parts) if plan is None else _network(op, parts, plan)
    held = len(parts.initial)
    for i, way in enumerate(parts.outputs, held):
        element = parts.body.outputs[i]
        rank = way.axis + 1 if element.shape is None else len(element.shape) + 1
        value = reverse(op, made[i], 0, dim_of(op, made[i], 0)) if way.backward else made[i]
        made[i] = transpose(op, value, [*range(1, way.axis + 1), 0, *range(way.axis + 1, rank)])
    return tuple(made)


def _read(op: Op) -> _Scan:
    body = op.args.graph("body")
    count = op.args.integer("num_scan_inputs", default=0)
    held = len(body.inputs) - count
    stacked = len(body.outputs) - held
    if count < 1 or held < 0 or stacked < 0 or op.input_count != len(body.inputs):
        op.unsupported(
            f"{op.input_count} inputs, {count} of them scanned, do not fit a body of {len(body.inputs)} inputs and "
            f"{len(body.outputs)} outputs",
            code="invalid-argument",
        )
    if op.output_count != len(body.outputs):
        reason = f"the node has {op.output_count} outputs; its body has {len(body.outputs)}"
        op.unsupported(reason, code="invalid-argument")
    axes, backward = _ways(op, "input", count)
    ranks = [op.rank(op.input(held + i)) for i in range(count)]
    ways = [_Way(op.axis(axis, rank), back) for axis, rank, back in zip(axes, ranks, backward, strict=True)]
    out_axes, out_backward = _ways(op, "output", stacked)
    return _Scan(
        body,
        tuple(op.operand(i) for i in range(held)),
        tuple(_Sequence(op.operand(held + i), way, str(body.inputs[held + i].name)) for i, way in enumerate(ways)),
        tuple(
            _Way(_output_axis(op, axis, op.node.outputs[held + i], body.outputs[held + i]), back)
            for i, (axis, back) in enumerate(zip(out_axes, out_backward, strict=True))
        ),
    )


def _ways(op: Op, side: str, count: int) -> tuple[list[int], list[bool]]:
    axes = op.args.integers(f"scan_{side}_axes", default=()) or (0,) * count
    directions = op.args.integers(f"scan_{side}_directions", default=()) or (0,) * count
    if len(axes) != count or len(directions) != count:
        reason = f"{len(axes)} axes and {len(directions)} directions are given for {count} scan {side}s"
        op.unsupported(reason, code="invalid-argument")
    return list(axes), [bool(direction) for direction in directions]


def _output_axis(op: Op, axis: int, output: ir.Value, element: ir.Value) -> int:
    """Return the axis that a result is stacked along, from the front; the rank must be known unless it is 0."""
    if axis == 0:
        return 0
    if element.shape is None:
        op.needs_shape(f"the rank of {output.name or element.name!r} is unknown")
    return op.axis(axis, len(element.shape) + 1)


def _network(op: Op, parts: _Scan, plan: RowPlan) -> list[Value]:
    """Compute by a step net with each state's row before and after it; gather sequences of other types than float."""
    held = len(parts.initial)
    wholes = [link.whole(op, parts.sequences[link.index].from_first(op)) for link in plan.linked]
    first = None if wholes else op.emit("ExpandDims", arange(op, parts.steps(op)), dims=[1])
    links = {link.index for link in plan.linked}
    gathered = [sequence for i, sequence in enumerate(parts.sequences) if i not in links]
    last = parts.last(op) if any(sequence.way.backward for sequence in gathered) else None
    own = [i for i, stacked in enumerate(plan.stacked) if stacked.state >= held]

    def step(rows: Sequence[Value], before: Sequence[Value], timestep: Value) -> list[Value]:
        for link, row in zip(plan.linked, rows, strict=True):
            _emit_named(op, link.row(op, row), parts.sequences[link.index].row)
        if gathered:
            number = timestep.cast(INT64)
            for sequence in gathered:
                sequence.emit_row(op, number, last)
        for state, name, row in zip(plan.states, parts.states, before, strict=False):
            _emit_named(op, state.from_row(op, row), name)
        results = [*parts.results[:held], *(parts.results[held + i] for i in own)]
        op.emitted.ops.extend(_needed(op.lower_body(parts.body, "body"), results))
        return [
            state.to_row(op, op.blob(name, state.dtype), row, is_certain=is_certain)
            for state, name, row, is_certain in zip(plan.states, results, before, plan.is_certain, strict=True)
        ]

    runs = recurrent_network(op, wholes, [state.first_row(op) for state in plan.states], step, first)
    return [
        *(state.from_row(op, run.last) for state, run in zip(plan.states[:held], runs, strict=False)),
        *(plan.states[kept.state].of_all_steps(op, runs[kept.state].all, kept.dims) for kept in plan.stacked),
    ]


def _needed(ops: Sequence[OperatorDef], results: Sequence[str]) -> list[OperatorDef]:
    """Return the operators that results depend on: a result that is a reshaped state needs no operators of its own."""
    wanted = set(results)
    kept: list[OperatorDef] = []
    for own in reversed(ops):
        if wanted.intersection(own.output):
            wanted.update(own.input)
            kept.append(own)
    return kept[::-1]


def _while(op: Op, parts: _Scan) -> list[Value]:
    """Return a loop whose iterations gather their row of each sequence."""
    trips, last = parts.steps(op), parts.last(op)
    iteration, condition, following = op.fresh("iteration"), op.fresh("condition"), op.fresh("condition")
    with op.inside() as ops:
        number = op.blob(iteration, INT64).reshape([1])
        for sequence in parts.sequences:
            sequence.emit_row(op, number, last)
        ops.extend(op.lower_body(parts.body, "body"))
    ops.append(OperatorDef(type="Copy", input=[condition], output=[following]))
    body = LoopBody(iteration, condition, parts.states, ops, [following, *parts.results])
    names = [op.fresh("result") for _ in op.node.outputs]
    emit_loop(op, trips, None, [_value(op, operand) for operand in parts.initial], body, names)
    values = [*parts.initial, *parts.body.outputs[len(parts.initial) :]]
    return [op.blob(name, value.dtype or FLOAT) for name, value in zip(names, values, strict=True)]


def _emit_named(op: Op, value: Value, name: str) -> None:
    """Give the output of the last operator the name that a body has for it."""
    last = op.emitted.ops[-1]
    assert last.output[0] == value.name
    last.output[0] = name

"""ONNX's Scan as RecurrentNetwork, or as ONNXWhile where a RecurrentNetwork cannot carry what it does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from caffe2_backend.emit.shapes import dim_of, moved, places_along
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import FLOAT, INT64, Op
from caffe2_backend.ops.control_flow import Body, lowered_body, while_loop
from caffe2_backend.recurrent.network import recurrent_network
from caffe2_backend.recurrent.rows import Plan, plan_rows
from caffe2_backend.recurrent.sequence_lengths import backwards
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef

family = Family("scan")


@dataclass(frozen=True)
class _Way:
    """The axis that steps go along, and whether from its end."""

    axis: int
    backward: bool


@dataclass(frozen=True)
class _Sequence:
    """A scan input, and the body's name of its row."""

    value: ir.Value
    way: _Way
    row: str

    @property
    def blob(self) -> str:
        return str(self.value.name)

    @property
    def may_be_linked(self) -> bool:
        """Whether it is float, which alone can be linked to a step net, and not known to be empty."""
        return self.value.dtype == FLOAT and self.value.shape is not None and 0 not in self.value.shape

    def from_first(self, op: Op) -> str:
        """The blob with the steps along axis 0, in their order."""
        rank = 0 if self.value.shape is None else len(self.value.shape)
        axis = self.way.axis
        blob = moved(op, self.blob, [axis, *range(axis), *range(axis + 1, rank)])
        return backwards(op, blob, None) if self.way.backward else blob

    def gathered(self, inside: Op, number: str, last: str) -> None:
        """Emit the row of a step; its number, and the last one's, are int64 [1]."""
        place = inside.emit("Sub", last, number) if self.way.backward else number
        row = inside.emit("Gather", self.blob, place, axis=self.way.axis)
        _named(inside, inside.emit("Squeeze", row, dims=[self.way.axis]), self.row)


@dataclass(frozen=True)
class _Scan:
    """A Scan: body, states before the first step, scan inputs, and the ways that its stacked outputs go."""

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

    def steps(self, op: Op) -> str:
        """How many steps there are, int64 [1]."""
        return dim_of(op, self.sequences[0].blob, self.sequences[0].way.axis)

    def last(self, op: Op) -> str:
        """The number of the last step, int64 [1]; empty where none reads it."""
        if not any(sequence.way.backward for sequence in self.sequences):
            return ""
        return op.emit("Sub", self.steps(op), op.const([1], np.int64))


@family.converts("Scan")
def scan(op: Op) -> tuple[str, ...]:
    """States first, then what was stacked, along its axis and in its direction."""
    parts = _read(op)
    linked = [i for i, sequence in enumerate(parts.sequences) if sequence.may_be_linked]
    scanned = [(sequence.value, sequence.way.axis) for sequence in parts.sequences]
    plan = plan_rows(op, parts.body, parts.initial, scanned, linked)
    made = _while(op, parts) if plan is None else _network(op, parts, plan)
    held = len(parts.initial)
    for i, way in enumerate(parts.outputs, held):
        value = parts.body.outputs[i]
        rank = way.axis + 1 if value.shape is None else len(value.shape) + 1
        blob = backwards(op, made[i], None) if way.backward else made[i]
        order = [*range(1, way.axis + 1), 0, *range(way.axis + 1, rank)]
        made[i] = moved(op, blob, order, value.dtype or FLOAT)
    return tuple(made)


def _read(op: Op) -> _Scan:
    body = op.graph("body")
    count = op.integer("num_scan_inputs", 0)
    held = len(body.inputs) - count
    stacked = len(body.outputs) - held
    if count < 1 or held < 0 or stacked < 0 or op.input_count != len(body.inputs):
        op.unsupported(
            f"{op.input_count} inputs, {count} of them scanned, and a body from {len(body.inputs)} values to "
            f"{len(body.outputs)}",
            code="invalid-argument",
        )
    axes, backward = _ways(op, "input", count)
    ranks = [op.rank(held + i) for i in range(count)]
    ways = [_Way(op.axis(axis, rank), back) for axis, rank, back in zip(axes, ranks, backward, strict=True)]
    out_axes, out_backward = _ways(op, "output", stacked)
    return _Scan(
        body,
        tuple(op.value(i) for i in range(held)),
        tuple(_Sequence(op.value(held + i), way, str(body.inputs[held + i].name)) for i, way in enumerate(ways)),
        tuple(
            _Way(_output_axis(op, axis, op.node.outputs[held + i], body.outputs[held + i]), back)
            for i, (axis, back) in enumerate(zip(out_axes, out_backward, strict=True))
        ),
    )


def _ways(op: Op, side: str, count: int) -> tuple[list[int], list[bool]]:
    axes = op.integers(f"scan_{side}_axes") or [0] * count
    directions = op.integers(f"scan_{side}_directions") or [0] * count
    if len(axes) != count or len(directions) != count:
        op.unsupported(
            f"{len(axes)} axes and {len(directions)} directions for {count} scan {side}s", code="invalid-argument"
        )
    return axes, [bool(direction) for direction in directions]


def _output_axis(op: Op, axis: int, output: ir.Value, element: ir.Value) -> int:
    """The axis that a result is stacked along, counted from the front; the rank tells where it is not 0."""
    if axis == 0:
        return 0
    if element.shape is None:
        op.unsupported(f"the rank of {output.name or element.name!r} is unknown", code="needs-shape")
    return op.axis(axis, len(element.shape) + 1)


def _network(op: Op, parts: _Scan, plan: Plan) -> list[str]:
    """The step net has the row of each state before and after it; sequences of other types than float are gathered."""
    held = len(parts.initial)
    wholes = [link.whole(op, parts.sequences[link.index].from_first(op)) for link in plan.linked]
    first = None if wholes else op.emit("ExpandDims", places_along(op, parts.steps(op)), dims=[1])
    indices = {link.index for link in plan.linked}
    gathered = [sequence for i, sequence in enumerate(parts.sequences) if i not in indices]
    last = parts.last(op) if any(sequence.way.backward for sequence in gathered) else ""

    def step(inside: Op, rows: Sequence[str], before: Sequence[str], timestep: str) -> list[str]:
        for link, row in zip(plan.linked, rows, strict=True):
            _named(inside, link.row(inside, row), parts.sequences[link.index].row)
        number = inside.cast(timestep, INT64) if gathered else ""
        for sequence in gathered:
            sequence.gathered(inside, number, last)
        for state, name, row in zip(plan.states, parts.states, before, strict=False):
            _named(inside, state.from_row(inside, row), name)
        results = [*parts.results[:held], *(parts.results[held + i] for i in own)]
        inside.made.ops += _needed(lowered_body(op, parts.body, "body"), results)
        return [
            state.to_row(inside, name, row, is_certain=is_certain)
            for state, name, row, is_certain in zip(plan.states, results, before, plan.is_certain, strict=True)
        ]

    own = [i for i, stacked in enumerate(plan.stacked) if stacked.state >= held]
    runs = recurrent_network(op, wholes, [state.first_row(op) for state in plan.states], step, first)
    return [
        *(state.from_row(op, run.last) for state, run in zip(plan.states[:held], runs, strict=False)),
        *(plan.states[kept.state].of_all_steps(op, runs[kept.state].all, kept.dims) for kept in plan.stacked),
    ]


def _needed(ops: Sequence[OperatorDef], results: Sequence[str]) -> list[OperatorDef]:
    """The operators that results depend on: what is kept of every step as a state needs no shape of its own."""
    wanted = set(results)
    kept: list[OperatorDef] = []
    for own in reversed(ops):
        if wanted.intersection(own.output):
            wanted.update(own.input)
            kept.append(own)
    return kept[::-1]


def _while(op: Op, parts: _Scan) -> list[str]:
    """A loop that reads a row of each sequence by its number."""
    trips, last = parts.steps(op), parts.last(op)
    inside = op.inside()
    number = op.fresh("number")
    place = inside.reshape(number, [1])
    for sequence in parts.sequences:
        sequence.gathered(inside, place, last)
    ops = [*inside.made.ops, *lowered_body(op, parts.body, "body")]
    going, goes_on = op.fresh("going"), op.fresh("going")
    ops.append(OperatorDef(type="Copy", input=[going], output=[goes_on]))
    body = Body(number, going, parts.states, ops, [goes_on, *parts.results])
    names = [op.fresh("result") for _ in op.node.outputs]
    while_loop(op, trips, None, [str(value.name) for value in parts.initial], body, names)
    return names


def _named(op: Op, blob: str, name: str) -> None:
    """Give the last operator's output the name that a body knows it by."""
    made = op.made.ops[-1]
    assert made.output[0] == blob
    made.output[0] = name

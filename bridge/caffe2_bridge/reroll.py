"""Reroll nets that were unrolled over time: T copies of the same operators become one RecurrentNetwork.

The pattern is what Caffe2's UnrolledCell and similar tools write: a Split of the sequence into T rows, T blocks of
operators that differ in their blobs only, and a Concat of the blocks' results. The loop that replaces it accepts any T.

The search tries each Split along axis 0 and each block size. The operators at the same position of all T blocks must
have the same type, engine, arguments and arity, and each of their operands, seen as the T names that it has in the T
blocks, must be one of:

=================  =====================================================================================
a row              name t is row t of the Split
a local result     name t is the same output of the same operator in block t
a captured blob    all names are one blob, which no block writes
a state            name t is the same output of the same operator in block t - 1; name 0 is the initial value
the step index     name t is an int32 parameter [1] with value t
=================  =====================================================================================

After the blocks, the net may read the last value of a state and a Concat of all its values, and nothing else of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from caffe2_bridge.control import Alias, Link, State, recurrent_arguments
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.construct import make_operator
from caffe2_bridge.netdef.replace import with_operators
from caffe2_bridge.netdef.views import NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import Argument, NetDef, OperatorDef

# A result of a block: the index of the operator in the block, and the index of the output.
_Result = tuple[int, int]


@dataclass
class _Loop:
    """T matching blocks.

    Attributes:
        split: the index of the Split in the net.
        size: the number of operators in a block.
        blocks: the operators of each block.
        states: the results that the next step reads, with the name of the initial value.
        captured: the blobs that all blocks read and none writes (an ordered set).
        timesteps: the names of the T parameters that hold the step index; empty if the blocks read none.
    """

    split: int
    size: int
    blocks: Sequence[Sequence[OpView]]
    states: dict[_Result, str] = field(default_factory=dict)
    captured: dict[str, None] = field(default_factory=dict)
    timesteps: list[str] = field(default_factory=list)

    def name(self, result: _Result, step: int = 0) -> str:
        """Return the name of a result in one of the blocks."""
        op, output = result
        return self.blocks[step][op].outputs[output]

    @property
    def end(self) -> int:
        """Index of the first operator after the blocks."""
        return self.split + 1 + self.size * len(self.blocks)


def reroll(model: Model) -> Model:
    """Replace each unrolled loop of a model's predict net by a RecurrentNetwork.

    Returns a new model, or ``model`` itself if its net has no unrolled loop.
    """
    net = model.predict_net
    start = 0
    while (found := _find_unrolled(net, model, start)) is not None:
        loop, outputs = found
        net = _replace_blocks(net, loop, outputs)
        start = loop.split + 1
    return model if net is model.predict_net else dataclasses.replace(model, predict_net=net)


def _find_unrolled(net: NetDef, model: Model, start: int) -> tuple[_Loop, dict[_Result, dict[str, str]]] | None:
    """Return the first unrolled loop from operator ``start`` on, and the names of its states after the blocks."""
    ops = NetView(net).ops
    for split in ops[start:]:
        if split.type != "Split" or len(split.outputs) < 2 or len(split.inputs) != 1 or _axis(split) != 0:
            continue
        steps = len(split.outputs)
        for size in range(1, (len(ops) - split.index - 1) // steps + 1):
            first = split.index + 1
            blocks = [ops[first + t * size : first + (t + 1) * size] for t in range(steps)]
            loop = _match_blocks(_Loop(split.index, size, blocks), split.outputs, model)
            outputs = None if loop is None else _state_outputs(net, loop)
            if loop is not None and outputs is not None:
                return loop, outputs
    return None


def _axis(op: OpView) -> int:
    return op.args.integer("axis", default=1)


def _match_blocks(loop: _Loop, rows: Sequence[str], model: Model) -> _Loop | None:
    """Return the loop with all operands classified; None if the blocks do not match."""
    first = loop.blocks[0]
    results = [{name: (i, o) for i, op in enumerate(b) for o, name in enumerate(op.outputs)} for b in loop.blocks]
    for i, op in enumerate(first):
        copies = [block[i] for block in loop.blocks]
        if any(not _same_operator(op, copy) for copy in copies):
            return None
        for k in range(len(op.inputs)):
            if not _classify_operand(loop, [copy.inputs[k] for copy in copies], rows, results, model):
                return None
    used = {name for op in loop.blocks[-1] for name in op.inputs}
    return loop if rows[-1] in used and loop.states else None


def _same_operator(one: OpView, other: OpView) -> bool:
    """Return whether two operators differ in their blobs only."""
    if (one.type, one.engine, len(one.inputs), len(one.outputs)) != (
        other.type, other.engine, len(other.inputs), len(other.outputs),
    ):  # fmt: skip
        return False
    return sorted(map(_serialize, one.proto.arg)) == sorted(map(_serialize, other.proto.arg))


def _serialize(arg: Argument) -> bytes:
    return arg.SerializeToString(deterministic=True)


def _classify_operand(
    loop: _Loop, names: Sequence[str], rows: Sequence[str], results: Sequence[Mapping[str, _Result]], model: Model
) -> bool:
    """Classify an operand by its names in the T blocks, and record it in ``loop``. Return whether it fits the pattern.

    ``results`` holds for each block the result that each name is.
    """
    if list(names) == list(rows) or _common_result(names, results) is not None:
        return True
    if len(set(names)) == 1 and not any(names[0] in block for block in results):
        loop.captured[names[0]] = None
        return True
    state = _common_result(names[1:], results[:-1])
    if state is not None and not any(names[0] in block for block in results):
        return loop.states.setdefault(state, names[0]) == names[0]
    if _are_step_indices(names, model):
        loop.timesteps[:] = names
        return True
    return False


def _common_result(names: Sequence[str], results: Sequence[Mapping[str, _Result]]) -> _Result | None:
    """Return the result that name t is in block t, for all t; None if there is not exactly one."""
    found = {block.get(name) for name, block in zip(names, results, strict=True)}
    return found.pop() if len(found) == 1 else None


def _are_step_indices(names: Sequence[str], model: Model) -> bool:
    """Return whether parameter t holds t, int32 [1]."""
    parameters = [model.init.parameters.get(name) for name in names]
    return all(
        p is not None and p.shape == (1,) and p.dtype == np.int32 and int(p.load()[0]) == t
        for t, p in enumerate(parameters)
    )


def _state_outputs(net: NetDef, loop: _Loop) -> dict[_Result, dict[str, str]] | None:
    """Return for each state the names of all its rows (``all``) and of the last one (``last``) after the blocks.

    None if anything else of the blocks is read after them.
    """
    inside = {name for block in loop.blocks for op in block for name in op.outputs}
    found: dict[_Result, dict[str, str]] = {state: {} for state in loop.states}
    last = {loop.name(state, -1): state for state in loop.states}
    later = NetView(net).ops[loop.end :]
    read_later = {name for op in later for name in op.inputs} | {*net.external_output}
    for op in later:
        stacked = _stacked_state(op, loop)
        if stacked is not None:
            if any(name in read_later for name in op.outputs[1:]):
                return None
            found[stacked]["all"] = op.outputs[0]
            read_later -= set(op.inputs) - {op.inputs[-1]}
        elif any(name in inside and name not in last for name in op.inputs):
            return None
    if any(name in inside and name not in last for name in net.external_output):
        return None
    for name, state in last.items():
        found[state]["last"] = name
    return found


def _stacked_state(op: OpView, loop: _Loop) -> _Result | None:
    """Return the state whose values in all steps an operator concatenates in order; None if it is another operator."""
    if op.type != "Concat" or _axis(op) != 0 or op.args.integer("add_axis", default=0):
        return None
    for state in loop.states:
        if list(op.inputs) == [loop.name(state, t) for t in range(len(loop.blocks))]:
            return state
    return None


def _replace_blocks(net: NetDef, loop: _Loop, outputs: Mapping[_Result, Mapping[str, str]]) -> NetDef:
    """Replace the Split, the blocks and the Concats of their states by a RecurrentNetwork."""
    ops = NetView(net).ops
    concats = {op.index for op in ops[loop.end :] if _stacked_state(op, loop) is not None}
    before = [op.proto for op in ops[: loop.split]]
    after = [op.proto for op in ops[loop.end :] if op.index not in concats]
    rolled = with_operators(net, [*before, _recurrent_network(ops[loop.split], loop, outputs), *after])
    read = {name for op in rolled.op for name in op.input}
    dropped = set(loop.timesteps) - read
    kept = [name for name in rolled.external_input if name not in dropped]
    rolled.external_input[:] = kept
    return rolled


def _recurrent_network(split: OpView, loop: _Loop, outputs: Mapping[_Result, Mapping[str, str]]) -> OperatorDef:
    sequence, row = split.inputs[0], split.outputs[0]
    initial = list(dict.fromkeys(loop.states.values()))
    inputs = list(dict.fromkeys([sequence, *initial, *(name for name in loop.captured)]))
    states, links, aliases = [], [Link(row, sequence, 0)], []
    for state, start in loop.states.items():
        rows = f"{loop.name(state)}_states"
        states.append(State(rows, inputs.index(start)))
        links += [Link(start, rows, 0), Link(loop.name(state), rows, 1)]
        for kind, offset in (("all", 1), ("last", -1)):
            if kind in outputs[state]:
                aliases.append(Alias(rows, outputs[state][kind], offset))
    timestep = loop.timesteps[0] if loop.timesteps else "timestep"
    step = NetDef(name="step", type="simple", op=[op.proto for op in loop.blocks[0]])
    step.external_input.extend(dict.fromkeys([row, timestep, *initial, *loop.captured]))
    step.external_output.extend(loop.name(state) for state in loop.states)
    results = [*(alias.blob for alias in aliases), f"{sequence}_step_workspaces"]
    arguments = recurrent_arguments(step, timestep, states, links, aliases)
    return make_operator("RecurrentNetwork", inputs, results, arguments)

"""Nets that were unrolled over time, rolled up again: T copies of the same operators become one RecurrentNetwork.

What Caffe2's UnrolledCell writes, and tools like it: a Split of the sequence into T rows, T blocks of operators that
differ in their blobs alone, and a Concat of what the blocks make. The loop that comes of it serves every T.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from caffe2_bridge.control import Alias, Link, State, recurrent_arguments
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.construct import make_operator
from caffe2_bridge.netdef.views import NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import Argument, NetDef, OperatorDef

# A product of a block: the operator's place in the block, and which of its outputs.
_Product = tuple[int, int]


@dataclass
class _Loop:
    """What the blocks have in common."""

    split: int
    size: int
    blocks: Sequence[Sequence[OpView]]
    states: dict[_Product, str] = field(default_factory=dict)
    captured: dict[str, None] = field(default_factory=dict)
    timesteps: list[str] = field(default_factory=list)

    def name(self, product: _Product, step: int = 0) -> str:
        """The blob that a product is in one of the blocks."""
        op, output = product
        return self.blocks[step][op].outputs[output]

    @property
    def end(self) -> int:
        """The index of the first operator after the blocks."""
        return self.split + 1 + self.size * len(self.blocks)


def reroll(model: Model) -> Model:
    """The model with every unrolled stretch of its predict net as a RecurrentNetwork; others stay as they are."""
    net = model.predict_net
    start = 0
    while (found := _find(net, model, start)) is not None:
        loop, outputs = found
        net = _rolled(net, loop, outputs)
        start = loop.split + 1
    return model if net is model.predict_net else dataclasses.replace(model, predict_net=net)


def _find(net: NetDef, model: Model, start: int) -> tuple[_Loop, dict[_Product, dict[str, str]]] | None:
    """The first unrolled stretch from an operator on, and what is read of its products afterwards."""
    ops = NetView(net).ops
    for split in ops[start:]:
        if split.type != "Split" or len(split.outputs) < 2 or len(split.inputs) != 1 or _axis(split) != 0:
            continue
        steps = len(split.outputs)
        for size in range(1, (len(ops) - split.index - 1) // steps + 1):
            first = split.index + 1
            blocks = [ops[first + t * size : first + (t + 1) * size] for t in range(steps)]
            loop = _common(_Loop(split.index, size, blocks), split.outputs, model)
            outputs = None if loop is None else _read_after(net, loop)
            if loop is not None and outputs is not None:
                return loop, outputs
    return None


def _axis(op: OpView) -> int:
    return op.args.integer("axis", default=1)


def _common(loop: _Loop, rows: Sequence[str], model: Model) -> _Loop | None:
    """The loop, with the roles of all operands; None where the blocks are not T times the same."""
    first = loop.blocks[0]
    made = [{name: (i, o) for i, op in enumerate(b) for o, name in enumerate(op.outputs)} for b in loop.blocks]
    for i, op in enumerate(first):
        same = [block[i] for block in loop.blocks]
        if any(not _alike(op, other) for other in same):
            return None
        for k in range(len(op.inputs)):
            if not _role(loop, [other.inputs[k] for other in same], rows, made, model):
                return None
    used = {name for op in loop.blocks[-1] for name in op.inputs}
    return loop if rows[-1] in used and loop.states else None


def _alike(one: OpView, other: OpView) -> bool:
    """Whether two operators are the same but for their blobs."""
    if (one.type, one.engine, len(one.inputs), len(one.outputs)) != (
        other.type, other.engine, len(other.inputs), len(other.outputs),
    ):  # fmt: skip
        return False
    return sorted(map(_plain, one.proto.arg)) == sorted(map(_plain, other.proto.arg))


def _plain(arg: Argument) -> bytes:
    return arg.SerializeToString(deterministic=True)


def _role(
    loop: _Loop, names: Sequence[str], rows: Sequence[str], made: Sequence[Mapping[str, _Product]], model: Model
) -> bool:
    """Note what an operand is: a row, a blob of the block, a state, the step's number, or the same blob throughout."""
    if list(names) == list(rows) or _same_product(names, made) is not None:
        return True
    if len(set(names)) == 1 and not any(names[0] in block for block in made):
        loop.captured[names[0]] = None
        return True
    state = _same_product(names[1:], made[:-1])
    if state is not None and not any(names[0] in block for block in made):
        return loop.states.setdefault(state, names[0]) == names[0]
    if _are_numbers(names, model):
        loop.timesteps[:] = names
        return True
    return False


def _same_product(names: Sequence[str], made: Sequence[Mapping[str, _Product]]) -> _Product | None:
    products = {block.get(name) for name, block in zip(names, made, strict=True)}
    return products.pop() if len(products) == 1 else None


def _are_numbers(names: Sequence[str], model: Model) -> bool:
    """Whether these are parameters that hold 0, 1, 2 ..., as the numbers of steps."""
    parameters = [model.init.parameters.get(name) for name in names]
    return all(
        p is not None and p.shape == (1,) and p.dtype == np.int32 and int(p.load()[0]) == t
        for t, p in enumerate(parameters)
    )


def _read_after(net: NetDef, loop: _Loop) -> dict[_Product, dict[str, str]] | None:
    """For each state, under which names all rows (``all``) and the last one (``last``) are read; None if more is."""
    inside = {name for block in loop.blocks for op in block for name in op.outputs}
    found: dict[_Product, dict[str, str]] = {product: {} for product in loop.states}
    last = {loop.name(product, -1): product for product in loop.states}
    later = NetView(net).ops[loop.end :]
    read_later = {name for op in later for name in op.inputs} | {*net.external_output}
    for op in later:
        whole = _whole(op, loop)
        if whole is not None:
            if any(name in read_later for name in op.outputs[1:]):
                return None
            found[whole]["all"] = op.outputs[0]
            read_later -= set(op.inputs) - {op.inputs[-1]}
        elif any(name in inside and name not in last for name in op.inputs):
            return None
    if any(name in inside and name not in last for name in net.external_output):
        return None
    for name, product in last.items():
        found[product]["last"] = name
    return found


def _whole(op: OpView, loop: _Loop) -> _Product | None:
    """The state whose rows an operator puts together, all of them in order."""
    if op.type != "Concat" or _axis(op) != 0 or op.args.integer("add_axis", default=0):
        return None
    for product in loop.states:
        if list(op.inputs) == [loop.name(product, t) for t in range(len(loop.blocks))]:
            return product
    return None


def _rolled(net: NetDef, loop: _Loop, outputs: Mapping[_Product, Mapping[str, str]]) -> NetDef:
    """The net with the stretch, and the Concats of its rows, replaced by a RecurrentNetwork."""
    ops = NetView(net).ops
    concats = {op.index for op in ops[loop.end :] if _whole(op, loop) is not None}
    rolled = NetDef()
    rolled.CopyFrom(net)
    del rolled.op[:]
    rolled.op.extend(op.proto for op in ops[: loop.split])
    rolled.op.append(_recurrent(ops[loop.split], loop, outputs))
    rolled.op.extend(op.proto for op in ops[loop.end :] if op.index not in concats)
    read = {name for op in rolled.op for name in op.input}
    dropped = set(loop.timesteps) - read
    kept = [name for name in rolled.external_input if name not in dropped]
    rolled.external_input[:] = kept
    return rolled


def _recurrent(split: OpView, loop: _Loop, outputs: Mapping[_Product, Mapping[str, str]]) -> OperatorDef:
    sequence, row = split.inputs[0], split.outputs[0]
    initial = list(dict.fromkeys(loop.states.values()))
    inputs = list(dict.fromkeys([sequence, *initial, *(name for name in loop.captured)]))
    states, links, aliases = [], [Link(row, sequence, 0)], []
    for product, start in loop.states.items():
        rows = f"{loop.name(product)}_states"
        states.append(State(rows, inputs.index(start)))
        links += [Link(start, rows, 0), Link(loop.name(product), rows, 1)]
        for kind, offset in (("all", 1), ("last", -1)):
            if kind in outputs[product]:
                aliases.append(Alias(rows, outputs[product][kind], offset))
    timestep = loop.timesteps[0] if loop.timesteps else "timestep"
    step = NetDef(name="step", type="simple", op=[op.proto for op in loop.blocks[0]])
    step.external_input.extend(dict.fromkeys([row, timestep, *initial, *loop.captured]))
    step.external_output.extend(loop.name(product) for product in loop.states)
    results = [*(alias.blob for alias in aliases), f"{sequence}_step_workspaces"]
    arguments = recurrent_arguments(step, timestep, states, links, aliases)
    return make_operator("RecurrentNetwork", inputs, results, arguments)

"""A net cut by device: the fewest runs of one device each, and the copies between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from caffe2_backend.runtime.device_names import CPU, operator_device
from caffe2_bridge.control import control_class
from caffe2_bridge.devices import Side, operand_sides
from caffe2_bridge.diagnostics import ConversionError, Diagnostic, Location, RunError
from caffe2_bridge.netdef.views import NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.ssa.effects import OpEffects, analyse

# Operators that carry a blob to another device, and whether that is the operator's own (else the host).
TRANSFERS: Final[Mapping[str, bool]] = {
    "CopyCPUToGPU": True, "CopyFromCPUInput": True, "CopyGPUToCPU": False, "EnsureCPUOutput": False,
}  # fmt: skip


@dataclass(frozen=True)
class DeviceRun:
    """Operators that run on one device, in order; ``writes`` are all blobs that they write."""

    device: str
    net: NetDef = field(repr=False)
    indices: tuple[int, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True)
class Transfer:
    """A copy of a blob to a device."""

    source: str
    target: str
    device: str
    index: int


@dataclass(frozen=True)
class Plan:
    """What to do, in order."""

    steps: tuple[DeviceRun | Transfer, ...]

    @property
    def runs(self) -> tuple[DeviceRun, ...]:
        """The runs alone."""
        return tuple(step for step in self.steps if isinstance(step, DeviceRun))

    @property
    def transfers(self) -> tuple[Transfer, ...]:
        """The copies alone."""
        return tuple(step for step in self.steps if isinstance(step, Transfer))

    def describe(self) -> str:
        """A step a line."""
        lines = []
        for step in self.steps:
            if isinstance(step, DeviceRun):
                lines.append(f"{step.device}: {len(step.indices)} operators, {step.indices[0]} to {step.indices[-1]}")
            else:
                lines.append(f"copy {step.source} to {step.device} as {step.target}")
        return "\n".join(lines)


def make_plan(net: NetDef, *, gpu: int | None = None) -> Plan:
    """Cut a net into runs.

    Every operator runs where its device option says, or the net's, or on the host; ``gpu`` takes the place of all GPUs
    that options name. Between two devices the number of runs is the smallest that the order of reads and writes
    allows; among more, the smallest found by always going to the device with the most to do, from each start.

    Raises:
        RunError: an operator names a device that is neither host nor CUDA.
        ConversionError: operators read blobs that lie on another device, and nothing copies them: all of them.
    """
    view = NetView(net)
    effects = analyse(net, Location(view.name), [])
    devices = [_device(op, net, gpu) for op in view.ops]
    moves = _require_copies(view, effects.ops, devices)
    after = _dependencies(effects.ops)
    order = min((_greedy(start, devices, moves, after) for start in sorted(set(devices))), key=_switches)
    return Plan(tuple(_step(net, view, effects.ops, group) for group in order))


_Group = tuple[str, tuple[int, ...], bool]  # device, operators, whether it is a transfer


def _device(op: OpView, net: NetDef, gpu: int | None) -> str:
    try:
        device = operator_device(op.proto, net)
    except RunError as error:
        raise RunError(f"{Location(net.name or 'net', op.index, op.type, op.name)}: {error}") from None
    return f"cuda:{gpu}" if gpu is not None and device != CPU else device


def _switches(order: Sequence[_Group]) -> int:
    return sum(not moved for _, _, moved in order)


def _greedy(start: str, devices: Sequence[str], moves: Sequence[bool], after: Sequence[set[int]]) -> list[_Group]:
    """All that can be done on a device is done before the next one's turn; copies are made as soon as they can be."""
    waiting = dict(enumerate(after))
    done: set[int] = set()
    order: list[_Group] = []
    device = start
    while waiting:
        while copies := [i for i, needed in waiting.items() if moves[i] and needed <= done]:
            order += [(devices[i], (i,), True) for i in copies]
            done.update(copies)
            waiting = {i: needed for i, needed in waiting.items() if i not in done}
        group = _ready(device, waiting, done, devices, moves)
        if group:
            order.append((device, tuple(group), False))
            done.update(group)
            waiting = {i: needed for i, needed in waiting.items() if i not in done}
        others = sorted({devices[i] for i in waiting if not moves[i]})
        if others and not _ready(device, waiting, done, devices, moves):
            device = max(others, key=lambda d: len(_ready(d, waiting, done, devices, moves)))
    return order


def _ready(
    device: str, waiting: Mapping[int, set[int]], done: set[int], devices: Sequence[str], moves: Sequence[bool]
) -> list[int]:
    """The operators that can run on a device now, one after another, in net order."""
    found: list[int] = []
    have = set(done)
    for i, needed in waiting.items():
        if devices[i] == device and not moves[i] and needed <= have:
            found.append(i)
            have.add(i)
    return found


def _dependencies(ops: Sequence[OpEffects]) -> list[set[int]]:
    """For each operator those that must come before it: writers of what it touches, readers of what it writes."""
    writer: dict[str, int] = {}
    readers: dict[str, list[int]] = {}
    result: list[set[int]] = []
    for i, op in enumerate(ops):
        reads = {*op.found}
        writes = {*op.changed, *op.mutates}
        needed = {writer[name] for name in reads | writes if name in writer}
        needed.update(j for name in writes for j in readers.get(name, ()))
        needed.discard(i)
        for name in writes:
            writer[name] = i
            readers[name] = []
        for name in reads - writes:
            readers.setdefault(name, []).append(i)
        result.append(needed)
    return result


def _require_copies(view: NetView, effects: Sequence[OpEffects], devices: list[str]) -> list[bool]:
    """Which operators are copies to another device. A copy to where a blob lies already is no such, and runs there.

    Every other operator reads what the net makes where it lies; operands that are on the host anyway may be read there.
    """
    lies: dict[str, str | None] = {}
    findings = []
    moves = []
    for op, effect in zip(view.ops, effects, strict=True):
        device = devices[op.index]
        if op.type in TRANSFERS:
            device = device if TRANSFERS[op.type] else CPU
            moves.append(lies.get(op.inputs[0]) != device)
            devices[op.index] = device
            lies[op.outputs[0]] = device
            continue
        moves.append(False)
        inputs, outputs = operand_sides(op.proto)
        elsewhere = [
            name for name, side in zip(op.inputs, inputs, strict=True) if _is_away(lies.get(name), side, device)
        ]
        for name in dict.fromkeys(elsewhere):
            reason = f"runs on {device} and reads {name!r}, which lies on {lies[name]}"
            copy = "CopyCPUToGPU" if lies[name] == CPU else "CopyGPUToCPU"
            place = Location(view.name, op.index, op.type, op.name)
            findings.append(Diagnostic("device-mismatch", reason, place, hint=f"put a {copy} before it"))
        # What bodies write lies where their operators say, and here with the whole: it may be read on either side.
        operator = control_class(op.proto)
        anywhere = operator is not None and not operator.computes
        lies.update(dict.fromkeys(effect.changed, None if anywhere else device))
        on_host = [name for name, side in zip(op.outputs, outputs, strict=True) if side is Side.HOST]
        lies.update(dict.fromkeys(on_host, CPU))
    if findings:
        raise ConversionError(findings)
    return moves


def _is_away(where: str | None, side: Side, device: str) -> bool:
    """Whether a blob that lies somewhere is out of an operand's reach. What lives on the host may be on either side."""
    if where in (None, device) or side is Side.FREE:
        return False
    return not (side is Side.HOST and where == CPU)


def _step(net: NetDef, view: NetView, effects: Sequence[OpEffects], group: _Group) -> DeviceRun | Transfer:
    device, indices, moved = group
    if moved:
        op = view.ops[indices[0]]
        return Transfer(op.inputs[0], op.outputs[0], device, op.index)
    indices = tuple(sorted(indices))
    part = NetDef(name=net.name, arg=net.arg)
    part.op.extend(view.ops[i].proto for i in indices)
    writes = _union(name for i in indices for name in effects[i].changed)
    return DeviceRun(device, part, indices, writes)


def _union(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))

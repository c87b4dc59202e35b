"""Plans: a net cut into the fewest runs on one device each, and the copies between them.

The order of operators is a list schedule over the graph of dependencies (write after read and write, read after write).
Starting on one device, every operator that is ready on it runs; then the schedule switches to the device on which most
operators are ready. Each switch costs synchronization, so that the schedule with the fewest runs, over all devices to
start on, is taken. With two devices this greedy choice is optimal: running a ready operator early never delays another
one, and when nothing is ready on the one device, the other is the only choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from caffe2_backend.runtime.devices.device_names import CPU, operator_device
from caffe2_bridge.control import control_class
from caffe2_bridge.devices import Side, operand_sides
from caffe2_bridge.diagnostics import ConversionError, Diagnostic, Location, RunError
from caffe2_bridge.netdef.views import NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.ssa.effects import OpEffects, analyse

# Operators that copy a blob to another device: whether to the operator's own device, or to the host.
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
    """A copy of a blob to a device.

    ``index`` is that of the operator that copies; where no operator does, but a run reads what one on another device
    wrote (``is_implied``), that of the first one that reads.
    """

    source: str
    target: str
    device: str
    index: int
    is_implied: bool = False


@dataclass(frozen=True)
class DevicePlan:
    """Runs and copies, in order."""

    steps: tuple[DeviceRun | Transfer, ...]

    @property
    def runs(self) -> tuple[DeviceRun, ...]:
        """The runs."""
        return tuple(step for step in self.steps if isinstance(step, DeviceRun))

    @property
    def transfers(self) -> tuple[Transfer, ...]:
        """The copies."""
        return tuple(step for step in self.steps if isinstance(step, Transfer))

    def describe(self) -> str:
        """Return one line for each run or copy."""
        lines = []
        for step in self.steps:
            if isinstance(step, DeviceRun):
                lines.append(f"{step.device}: {len(step.indices)} operators, {step.indices[0]} to {step.indices[-1]}")
            else:
                lines.append(f"copy {step.source} to {step.device} as {step.target}")
        return "\n".join(lines)


def make_plan(net: NetDef, *, gpu: str | None = None, devices: Sequence[str] | None = None) -> DevicePlan:
    """Cut a net into runs.

    Every operator runs on the device of its option, or of the net's option, or on the host; ``gpu`` replaces all GPUs
    that options name. ``devices``, one for each operator, take the place of all options; then blobs are copied wherever
    a run reads what one on another device wrote. With two devices the number of runs is the minimum that the order of
    reads and writes allows; with more, it is the best of greedy schedules from each device.

    Raises:
        RunError: an operator names a device that is neither host nor CUDA.
        ConversionError: operators read blobs that are on another device, and no operator copies them: all of them.
    """
    view = NetView(net)
    effects = analyse(net, Location(view.name), [])
    implied = devices is not None
    devices = [_device(op, net, gpu) for op in view.ops] if devices is None else list(devices)
    moves = [False] * len(devices) if implied else _require_copies(view, effects.ops, devices)
    after = _dependencies(effects.ops)
    # With two devices each switch goes to the other one, and running all that is ready before it is optimal from a
    # given start: an exchange argument. So both starts are tried.
    order = min((_greedy(start, devices, moves, after) for start in sorted(set(devices))), key=_switches)
    steps = [_step(net, view, effects.ops, group) for group in order]
    return DevicePlan(tuple(_with_copies(steps, effects.ops) if implied else steps))


_Group = tuple[str, tuple[int, ...], bool]  # device, operators, whether it is a transfer


def _device(op: OpView, net: NetDef, gpu: str | None) -> str:
    try:
        device = operator_device(op.proto, net)
    except RunError as error:
        raise RunError(f"{Location(net.name or 'net', op.index, op.type, op.name)}: {error}") from None
    return gpu if gpu is not None and device != CPU else device


def _switches(order: Sequence[_Group]) -> int:
    return sum(not moved for _, _, moved in order)


def _greedy(start: str, devices: Sequence[str], moves: Sequence[bool], after: Sequence[set[int]]) -> list[_Group]:
    """Schedule from a device on: all ready operators of a device, then the next device; copies as early as possible."""
    waiting = dict(enumerate(after))
    done: set[int] = set()
    order: list[_Group] = []
    device = start
    while waiting:
        # A copy switches no device, and makes operators of others ready: never too early.
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
    """Return the operators that can run on a device now without switching, in net order."""
    found: list[int] = []
    # An operator of this group makes others of it ready, in net order.
    have = set(done)
    for i, needed in waiting.items():
        if devices[i] == device and not moves[i] and needed <= have:
            found.append(i)
            have.add(i)
    return found


def _dependencies(ops: Sequence[OpEffects]) -> list[set[int]]:
    """Return what must run before each operator: writers of blobs it reads or writes, readers of those it writes."""
    writer: dict[str, int] = {}
    readers: dict[str, list[int]] = {}
    result: list[set[int]] = []
    # Read after write, write after write, and write after read; only the last writer and its readers count, since
    # they wait for the earlier ones.
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
    """Whether each operator is a copy to another device; a copy to the blob's own device is an ordinary operator.

    Raises ConversionError if another operator reads a blob of the net that is on another device; operands that are
    always on the host may be read there.
    """
    location: dict[str, str | None] = {}
    findings = []
    moves = []
    for op, effect in zip(view.ops, effects, strict=True):
        device = devices[op.index]
        if op.type in TRANSFERS:
            device = device if TRANSFERS[op.type] else CPU
            moves.append(location.get(op.inputs[0]) != device)
            devices[op.index] = device
            location[op.outputs[0]] = device
            continue
        moves.append(False)
        inputs, outputs = operand_sides(op.proto)
        elsewhere = [
            name for name, side in zip(op.inputs, inputs, strict=True) if _is_away(location.get(name), side, device)
        ]
        for name in dict.fromkeys(elsewhere):
            reason = f"the operator runs on {device}, but reads {name!r}, which is on {location[name]}"
            copy = "CopyCPUToGPU" if location[name] == CPU else "CopyGPUToCPU"
            here = Location(view.name, op.index, op.type, op.name)
            findings.append(Diagnostic("device-mismatch", reason, here, hint=f"insert a {copy} before it"))
        # Bodies run with the whole operator, though their operators may name another device: readable on both.
        operator = control_class(op.proto)
        anywhere = operator is not None and not operator.computes
        location.update(dict.fromkeys(effect.changed, None if anywhere else device))
        on_host = [name for name, side in zip(op.outputs, outputs, strict=True) if side is Side.HOST]
        location.update(dict.fromkeys(on_host, CPU))
    if findings:
        raise ConversionError(findings)
    return moves


def _with_copies(steps: Iterable[DeviceRun | Transfer], effects: Sequence[OpEffects]) -> Iterator[DeviceRun | Transfer]:
    """Yield the steps, with the copies of blobs that a run reads and one on another device wrote."""
    location: dict[str, str] = {}
    for step in steps:
        if isinstance(step, DeviceRun):
            written: set[str] = set()
            for index in step.indices:
                for name in effects[index].found:
                    if name not in written and location.get(name, step.device) != step.device:
                        location[name] = step.device
                        yield Transfer(name, name, step.device, index, is_implied=True)
                written.update(effects[index].changed)
            location.update(dict.fromkeys(written, step.device))
        yield step


def _is_away(where: str | None, side: Side, device: str) -> bool:
    """Whether an operand cannot read a blob on device ``where``; host operands can read blobs of both sides."""
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

"""Remove redundant copies between devices."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import Message

from caffe2_bridge.control import all_names, parsed_bodies, rename_control
from caffe2_bridge.devices.device import HOST, Device
from caffe2_bridge.devices.infer import explicit_device
from caffe2_bridge.diagnostics import ConversionError, Diagnostic, Location
from caffe2_bridge.netdef.replace import set_operators
from caffe2_bridge.netdef.views import as_net_def
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.ssa.effects import NetEffects, OpEffects, analyse

_COPIES: Final = frozenset({"CopyCPUToGPU", "CopyGPUToCPU", "Copy"})
_PREDICT: Final = Location("predict")


def fuse_copies(net: Message | bytes) -> NetDef:
    """Remove copies between devices whose result is already on that device.

    A copy and its reverse are removed, chains of them too, and a second copy of the same value to the same device. All
    readers of such a result, bodies included, read the value itself if its blob still holds it: if it was overwritten
    in between, those readers keep the copy. A first copy stays as long as an operator reads it. External outputs keep
    their names, and operators that update a copy in place keep the copy. GPUs are the same device only if their indices
    are. Copies inside bodies of what the body itself copied are removed likewise.

    Returns:
        A new net. Raises ConversionError where a body cannot be read.
    """
    result = NetDef()
    result.CopyFrom(as_net_def(net))
    with parsed_bodies(result):
        while True:  # a removed copy no longer overwrites a blob that others could have read
            findings: list[Diagnostic] = []
            effects = analyse(result, _PREDICT, findings)
            if findings:
                raise ConversionError(findings)
            if not _fuse(effects, None, Counter(all_names(result))):
                return result


def _fuse(effects: NetEffects, shielded: set[str] | None, everywhere: Counter[str]) -> bool:
    """Fuse in the bodies, then in the net itself; ``shielded`` is None for the outermost net.

    Returns whether an operator was removed.
    """
    bodies = [body for op in effects.ops for body in op.bodies.values()]
    fused = [_fuse(body, {*body.found}, everywhere) for body in bodies]
    net = effects.net
    if not any(op.type in _COPIES for op in net.op):
        return any(fused)
    outside = set(net.external_output)
    if shielded is not None:
        here = Counter(all_names(net))
        # A blob of a body that has this name elsewhere, too, may be what a net around it reads.
        outside |= shielded | {name for name, count in here.items() if everywhere[name] > count}
    return _Fuser(effects, outside).run() or any(fused)


@dataclass(slots=True, eq=False)
class _Value:
    """A value under a name. ``origin`` is the value that it is a copy of; None if it is not a copy."""

    name: str
    device: Device | None = None
    origin: _Value | None = None
    readers: int = 0

    @property
    def source(self) -> _Value:
        """What it is a copy of, in the end."""
        return self.origin or self


class _Fuser:
    """Walks a net once and tracks the device and the names of each value."""

    def __init__(self, effects: NetEffects, outside: set[str]) -> None:
        self._effects = effects
        self._outside = outside
        self._now: dict[str, _Value] = {}
        self._at: dict[tuple[_Value, Device], list[_Value]] = {}
        self._reads: list[list[_Value]] = []
        self._made: dict[int, _Value] = {}

    def run(self) -> bool:
        """Rewire readers and remove copies, in place; return whether an operator was removed."""
        net = self._effects.net
        for index, (proto, op) in enumerate(zip(net.op, self._effects.ops, strict=True)):
            found = self._rewire(proto, op)
            self._reads.append(found)
            for value in found:
                value.readers += 1
            # Each write makes a new value: copies of the old one are not copies of this one.
            for name in (*proto.output, *op.changed):
                self._now[name] = _Value(name)
            if proto.type in _COPIES and len(proto.input) == len(proto.output) == 1:
                self._copied(index, proto, found[0])
        kept = {value for name, value in self._now.items() if name in self._outside}
        dropped = set()
        # Backwards: a copy that is removed no longer reads the copy that it was made from, which may go, too.
        for index in sorted(self._made, reverse=True):
            made = self._made[index]
            if made not in kept and not made.readers:
                dropped.add(index)
                for value in self._reads[index]:
                    value.readers -= 1
        if dropped:
            set_operators(net, (op for index, op in enumerate(net.op) if index not in dropped))
        return bool(dropped)

    def _value(self, name: str) -> _Value:
        return self._now.setdefault(name, _Value(name))

    def _copied(self, index: int, proto: OperatorDef, source: _Value) -> None:
        """Note what a copy between devices makes, and where the value that it copies must be."""
        option = explicit_device(proto)
        gpu = option if option is not None and option.is_gpu else Device("cuda")
        here, there = {
            "CopyCPUToGPU": (HOST, gpu),
            "CopyGPUToCPU": (gpu, HOST),
            "Copy": (source.device, option or HOST),
        }[proto.type]
        # A value of which two copies contradict each other about its device is left alone.
        if here is None or here == there or source.device not in {None, here}:
            return
        source.device = here
        if source.origin is None:
            self._at.setdefault((source, here), [source])
        made = self._now[proto.output[0]]
        made.device, made.origin = there, source.source
        self._at.setdefault((made.origin, there), []).append(made)
        self._made[index] = made

    def _rewire(self, proto: OperatorDef, op: OpEffects) -> list[_Value]:
        """Let an operator read earlier values where there are such; return those that it reads."""
        changed = {*op.updates, *op.merges, *op.mutates}
        names = dict.fromkeys((*proto.input, *op.touched) if op.bodies else proto.input)
        renamed: dict[str, str] = {}
        values = []
        for name in names:
            value = self._value(name)
            if value.origin is not None and name not in changed:
                earlier = self._earlier(value)
                if earlier is not None and (not op.bodies or _may_rename(op, name, earlier.name, proto)):
                    renamed[name] = earlier.name
                    value = earlier
            values.append(value)
        if renamed:
            rename_control(proto, renamed, {})
        return values

    def _earlier(self, value: _Value) -> _Value | None:
        """Return another value that is the same on the same device, made before, and still under its name."""
        assert value.device is not None
        for other in self._at.get((value.source, value.device), ()):
            # They are in order of their making: the ones behind are not earlier.
            if other is value:
                return None
            if self._now.get(other.name) is other:
                return other
        return None


def _may_rename(op: OpEffects, old: str, new: str, proto: OperatorDef) -> bool:
    """Whether an operator with bodies may read one blob for another: it writes neither, and no body uses the name."""
    written = {*op.changed, *op.mutates, *op.passes, *proto.output}
    if old in written or new in written or new in proto.input:
        return False
    return not any(new in set(all_names(body.net)) for body in op.bodies.values())

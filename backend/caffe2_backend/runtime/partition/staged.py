"""Nets on several devices: the runs and copies of a plan, in order."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from caffe2_backend.runtime.blobs.burst import ONCE, Burst
from caffe2_backend.runtime.blobs.results import Blobs, DeferredBlob, Results, value_of
from caffe2_backend.runtime.devices.device_names import CPU
from caffe2_backend.runtime.partition.plan import DevicePlan, DeviceRun, Transfer, make_plan
from caffe2_backend.runtime.program.interface import NetInterface, updated_in_place
from caffe2_backend.runtime.program.origin import Origin
from caffe2_backend.runtime.program.program import Program
from caffe2_backend.runtime.sessions.onnxruntime_library import copy_to_device, real_device
from caffe2_backend.runtime.sessions.session_options import SessionOptions
from caffe2_backend.runtime.values import DeviceTensor, HostObject, Int8Tensor, NoBlobError, Tensor, Value
from caffe2_bridge.diagnostics import Location, RunError
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.ssa.effects import analyse


class StagedProgram:
    """A net whose operators run on several devices; the interface is that of Program.

    Inputs of the net are copied to the device that reads them first; between operators, only the operators that copy
    move blobs.

    Raises:
        RunError: a device is not supported.
        ConversionError: operators read blobs that are on another device.
    """

    def __init__(
        self,
        net: NetDef,
        options: SessionOptions,
        gpu: str | None = None,
        *,
        plan: DevicePlan | None = None,
        init: InitNet | None = None,
        state: bool = True,
        keep: Collection[str] = (),
        origin: Origin | None = None,
        updated: Collection[str] = (),
    ) -> None:
        self._options = options
        self.name = NetView(net).name
        self._origin = origin or Origin(Location(self.name))
        plan = plan or make_plan(net, gpu=gpu)
        self.interface = NetInterface.of(net, init or InitNet(), keep=keep, state=state, updated=updated)
        effects = analyse(net, Location(self.name), [])
        self._updated = frozenset(updated) | updated_in_place(net, effects)
        self._in_workspace = state
        # From the last stage to the first: a stage must return the blobs that later ones read.
        wanted = {*self.interface.required, *(n for n in self.interface.state if n in self.interface.needs)}
        stages: list[Program | Transfer] = []
        for step in reversed(plan.steps):
            if isinstance(step, Transfer):
                wanted.add(step.source)
                real_device(step.device, options)
                stages.append(step)
            else:
                program = self._program(step, wanted, init)
                stages.append(program)
                wanted.update(program.interface.needs)  # blobs that a body only may read are computed if it does
        self._stages = stages[::-1]

    def _program(self, run: DeviceRun, wanted: set[str], init: InitNet | None) -> Program:
        try:
            real_device(run.device, self._options)
        except RunError as error:
            first = f"{self.name}[{run.indices[0]}] {run.net.op[0].type}"
            raise RunError(f"{first} runs on {run.device}: {error}") from None
        part = NetDef()
        part.CopyFrom(run.net)
        part.external_output.extend(name for name in run.writes if name in wanted)
        origin = Origin(self._origin.net, [self._origin.index(i) for i in run.indices])
        updated = self._updated
        return Program(part, run.device, self._options, keep=wanted, init=init, origin=origin, updated=updated)

    @property
    def conversions(self) -> int:
        """How many conversions there were so far."""
        return sum(stage.conversions for stage in self._stages if isinstance(stage, Program))

    def collect(self, blobs: Blobs) -> dict[str, Value]:
        """Return the blobs that the net reads. Raises NoBlobError if one is missing that it reads in any case."""
        given: dict[str, Value] = {}
        for name in (*self.interface.needs, *self.interface.may_need):
            value = value_of(name, blobs)
            if value is not None:
                given[name] = value
            elif name in self.interface.needs:
                raise NoBlobError(f"net {self.name!r} reads blob {name!r}, which is not in the workspace")
        return given

    @property
    def updates_in_place(self) -> bool:
        """Whether a run may overwrite values of states."""
        return any(stage.updates_in_place for stage in self._stages if isinstance(stage, Program))

    def run(
        self,
        given: Mapping[str, Value],
        constants: Mapping[str, Value] = MappingProxyType({}),
        burst: Burst = ONCE,  # noqa: ARG002 - the interface of Program; stages run in turn, so that a burst is one step
        held: int = 0,
    ) -> Results:
        """Run once; the arguments are those of :meth:`Program.run`."""
        blobs = _Overlay(given)
        for stage in self._stages:
            if isinstance(stage, Transfer) and stage.is_implied:
                self._move(stage, blobs)
            elif isinstance(stage, Transfer):
                blobs.values[stage.target] = self._copied(blobs.tensor(stage.source), stage.device)
                blobs.deferred.pop(stage.target, None)
            else:
                blobs.update(stage.run(stage.collect(blobs), constants, ONCE, held + 1 if held else 0))
        if self._in_workspace:
            return Results(blobs.values, blobs.deferred, blobs.objects)
        found: dict[str, Tensor] = {}
        for name in self.interface.required or blobs.values:
            value = blobs.values.get(name, given.get(name))
            if value is not None and not isinstance(value, HostObject | bytes):
                found[name] = value
        return Results(found)

    def _move(self, transfer: Transfer, blobs: _Overlay) -> None:
        """Copy a blob between runs, if it has a value there that can be on either device."""
        value = blobs.get(transfer.source)
        if value is None or isinstance(value, HostObject | bytes | Int8Tensor):
            return
        if isinstance(value, DeviceTensor) or value.dtype != object:
            blobs.values[transfer.target] = self._copied(value, transfer.device)

    def _copied(self, value: Tensor, device: str) -> Tensor:
        if device == CPU:
            return value.numpy() if isinstance(value, DeviceTensor) else value
        if isinstance(value, DeviceTensor) and value.device == device:
            return value
        if isinstance(value, Int8Tensor):
            raise RunError(f"net {self.name!r} copies an Int8 tensor to {device}, which Caffe2 has on the host only")
        array = value.numpy() if isinstance(value, DeviceTensor) else value
        return copy_to_device(array, device, real_device(device, self._options))


class _Overlay:
    """The blobs of an unfinished run, over those that it was given."""

    def __init__(self, given: Mapping[str, Value]) -> None:
        self._given = given
        self.values: dict[str, Tensor] = {}
        self.deferred: dict[str, DeferredBlob] = {}
        self.objects: dict[str, HostObject | bytes] = {}

    def get(self, name: str, /) -> Value | None:
        if name in self.deferred:
            self.values[name] = self.deferred.pop(name).compute(name)
        found: Value | None = self.values[name] if name in self.values else self.objects.get(name)
        return self._given.get(name) if found is None else found

    def tensor(self, name: str) -> Tensor:
        value = self.get(name)
        if value is None or isinstance(value, HostObject | bytes):
            raise NoBlobError(f"blob {name!r}, which is to be copied, is not a tensor in the workspace")
        return value

    def update(self, results: Results) -> None:
        for name in results.deferred:
            self.values.pop(name, None)
        for name in results.values:
            self.deferred.pop(name, None)
        self.values.update(results.values)
        self.deferred.update(results.deferred)
        self.objects.update(results.objects)

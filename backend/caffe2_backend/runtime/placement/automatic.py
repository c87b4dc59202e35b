"""Nets without device options on a GPU: what has CUDA kernels runs there, loops whole or not at all."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from types import MappingProxyType

from caffe2_backend.runtime.blobs.burst import ONCE, Burst
from caffe2_backend.runtime.blobs.results import Blobs, Results
from caffe2_backend.runtime.devices.device_names import CPU
from caffe2_backend.runtime.partition.plan import make_plan
from caffe2_backend.runtime.partition.staged import StagedProgram
from caffe2_backend.runtime.placement.gpu_program import GpuProgram, HostOperatorsError
from caffe2_backend.runtime.placement.report import HostOperator, Placement
from caffe2_backend.runtime.program.origin import Origin
from caffe2_backend.runtime.program.signature import Signature, signature_of
from caffe2_backend.runtime.sessions.session_options import SessionOptions
from caffe2_backend.runtime.values import Value
from caffe2_bridge.diagnostics import Location
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.ssa.objects import object_outputs


class PlacedProgram:
    """A net without device options on a GPU; the interface is that of Program.

    It runs there as a whole where every operator can. For kinds of inputs for which one cannot, it is cut into runs on
    the GPU and on the host.

    Args:
        net: the net; it must not be changed any more.
        device: the GPU.
        options: of sessions.
        init: parameters that are constants.
        state: see Program.
        keep: see Program.
        origin: see Program.
        updated: see Program.
    """

    def __init__(
        self,
        net: NetDef,
        device: str,
        options: SessionOptions,
        *,
        init: InitNet | None = None,
        state: bool = True,
        keep: Collection[str] = (),
        origin: Origin | None = None,
        updated: Collection[str] = (),
    ) -> None:
        self._net, self._device, self._options = net, device, options
        self._init, self._state, self._keep, self._updated = init, state, tuple(keep), updated
        self._origin = origin or Origin(Location(NetView(net).name))
        self._whole = GpuProgram(net, device, options, keep, init=init, state=state, origin=origin, updated=updated)
        self.interface = self._whole.interface
        self.name = self._whole.name
        self._cut: dict[frozenset[int], StagedProgram] = {}
        self._chosen: dict[Signature, GpuProgram | StagedProgram] = {}
        self._lock = threading.Lock()
        self.placement: Placement | None = None

    @property
    def conversions(self) -> int:
        """How many conversions there were so far."""
        return self._whole.conversions + sum(program.conversions for program in self._cut.values())

    @property
    def updates_in_place(self) -> bool:
        """Whether a run may overwrite values of states."""
        return self._whole.updates_in_place or any(program.updates_in_place for program in self._cut.values())

    def collect(self, blobs: Blobs) -> dict[str, Value]:
        """Return the blobs that the net reads. Raises NoBlobError if one is missing that it reads in any case."""
        return next(iter(self._cut.values()), self._whole).collect(blobs)

    def run(
        self,
        given: Mapping[str, Value],
        constants: Mapping[str, Value] = MappingProxyType({}),
        burst: Burst = ONCE,
        held: int = 0,
    ) -> Results:
        """Run once; the arguments are those of :meth:`Program.run`."""
        program = self._program_for(given, constants)
        try:
            return program.run(given, constants, burst, held + 1 if held else 0)
        except HostOperatorsError:  # nothing was run: a blob that was wanted meanwhile needs the host
            return self._again(given, constants).run(given, constants, burst, held + 1 if held else 0)

    def _again(self, given: Mapping[str, Value], constants: Mapping[str, Value]) -> GpuProgram | StagedProgram:
        self._chosen.clear()
        return self._program_for(given, constants)

    def _program_for(self, given: Mapping[str, Value], constants: Mapping[str, Value]) -> GpuProgram | StagedProgram:
        signature = signature_of([name for name in self.interface.needs if name in given], given, sized={})
        program = self._chosen.get(signature)
        if program is None:
            with self._lock:
                program = self._chosen[signature] = self._choose(given, constants)
        return program

    def _choose(self, given: Mapping[str, Value], constants: Mapping[str, Value]) -> GpuProgram | StagedProgram:
        count = len(self._net.op)
        try:
            self._whole.admit(given, constants)
        except HostOperatorsError as found:
            reasons = {index: reason for index, reason in found.reasons.items() if index < count}
        else:
            self.placement = Placement(self._device, count, copies=tuple(self._whole.found.copies))
            return self._whole
        reasons = with_objects(self._net, reasons)
        devices = [CPU if index in reasons else self._device for index in range(count)]
        plan = make_plan(self._net, devices=devices)
        key = frozenset(reasons)
        if key not in self._cut:
            program = StagedProgram(
                self._net, self._options, plan=plan, init=self._init, state=self._state, keep=self._keep,
                origin=self._origin, updated=self._updated,
            )  # fmt: skip
            self._cut[key] = program
        operators = NetView(self._net).ops
        self.placement = Placement(
            self._device,
            count,
            tuple(HostOperator(str(self._origin.location(operators[i])), reasons[i]) for i in sorted(reasons)),
            tuple((step.source, step.device) for step in plan.transfers),
        )
        return self._cut[key]


def with_objects(net: NetDef, reasons: Mapping[int, str]) -> dict[int, str]:
    """Return the operators on the host, with those that share objects: objects do not move between devices."""
    found = dict(reasons)
    shared = {name for op in net.op for name in object_outputs(op)}
    touching = {name: [i for i, op in enumerate(net.op) if name in (*op.input, *op.output)] for name in sorted(shared)}
    while True:
        before = len(found)
        for name, indices in touching.items():
            if any(index in found for index in indices):
                for index in indices:
                    found.setdefault(index, f"it shares {name!r} with an operator on the host")
        if len(found) == before:
            return found

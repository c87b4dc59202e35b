"""A net that runs by a plan: runs of one device each, and copies between them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

from caffe2_backend.runtime.device_names import CPU, names_devices, names_gpu
from caffe2_backend.runtime.partition import Plan, Run, Transfer, make_plan
from caffe2_backend.runtime.program import Program
from caffe2_backend.runtime.results import Blobs, Later, Results, value_of
from caffe2_backend.runtime.session_options import Choices
from caffe2_backend.runtime.sessions import put_on, real_device
from caffe2_backend.runtime.values import DeviceTensor, Int8Tensor, NoBlobError, Opaque, Tensor, Value
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.proto.caffe2_pb2 import NetDef

Runnable: TypeAlias = "Program | StagedProgram"


class StagedProgram:
    """A net whose operators run on several devices; the interface is that of Program.

    What the net reads from outside is taken to where it is first read; between operators nothing moves but by the
    operators that copy.

    Raises:
        RunError: a device is not there.
        ConversionError: operators read what lies on another device.
    """

    def __init__(
        self, net: NetDef, choices: Choices, gpu: int | None = None, *, init: InitNet | None = None, state: bool = True
    ) -> None:
        self.plan: Plan = make_plan(net, gpu=gpu)
        self._choices = choices
        whole = Program(net, CPU, choices, init=init, state=state)
        wanted = {*whole.required, *(name for name in whole.state if name in whole.needs)}
        self.net, self.name = net, whole.name
        self.needs, self.may_need, self.writes, self.made = whole.needs, whole.may_need, whole.writes, whole.made
        self._given = whole.required if not state else ()
        self._steps: list[Program | Transfer] = []
        for step in reversed(self.plan.steps):
            if isinstance(step, Transfer):
                wanted.add(step.source)
                real_device(step.device, choices)
                self._steps.append(step)
                continue
            program = self._program(step, wanted, init)
            self._steps.append(program)
            wanted.update(program.needs)  # what a body only may read is computed once it does
        self._steps.reverse()

    def _program(self, run: Run, wanted: set[str], init: InitNet | None) -> Program:
        try:
            real_device(run.device, self._choices)
        except RunError as error:
            place = f"{self.name}[{run.indices[0]}] {run.net.op[0].type}"
            hint = "device='cpu' runs the net without"
            raise RunError(f"{place} runs on {run.device}: {error} ({hint})") from None
        part = NetDef()
        part.CopyFrom(run.net)
        part.external_output.extend(name for name in run.writes if name in wanted)
        return Program(part, run.device, self._choices, keep=wanted, init=init)

    @property
    def conversions(self) -> int:
        """How many conversions there were so far."""
        return sum(step.conversions for step in self._steps if isinstance(step, Program))

    def want(self, name: str) -> None:
        """From now on, every run gives this blob."""
        for step in self._steps:
            if isinstance(step, Program) and name in step.writes:
                step.want(name)

    def collect(self, blobs: Blobs) -> dict[str, Value]:
        """The blobs that the net reads. Raises NoBlobError where one is missing that it surely reads."""
        given: dict[str, Value] = {}
        for name in (*self.needs, *self.may_need):
            value = value_of(name, blobs)
            if value is not None:
                given[name] = value
            elif name in self.needs:
                raise NoBlobError(f"net {self.name!r} reads blob {name!r}, which is not in the workspace")
        return given

    def run_given(self, given: Mapping[str, Value], constants: Mapping[str, Value] = MappingProxyType({})) -> Results:
        """One run; the arguments are those of Program."""
        blobs = _Overlay(given)
        for step in self._steps:
            if isinstance(step, Transfer):
                blobs.values[step.target] = self._moved(blobs.tensor(step.source), step.device)
                blobs.later.pop(step.target, None)
                continue
            results = step.run_given(step.collect(blobs), constants)
            blobs.take(results)
        return Results(blobs.values, blobs.later, blobs.objects)

    def run_plain(self, given: Mapping[str, Value]) -> dict[str, Tensor]:
        """What a run gives at once, and nothing else."""
        results = self.run_given(given)
        names = self._given or tuple(results.values)
        found = {}
        for name in names:
            value = results.values.get(name)
            if value is None and name in given:
                other = given[name]
                if isinstance(other, Opaque | bytes):
                    continue
                value = other
            if value is not None:
                found[name] = value
        return found

    def _moved(self, value: Tensor, device: str) -> Tensor:
        if device == CPU:
            return value.numpy() if isinstance(value, DeviceTensor) else value
        if isinstance(value, DeviceTensor) and value.device == device:
            return value
        if isinstance(value, Int8Tensor):
            raise RunError(f"net {self.name!r} copies an Int8 tensor to {device}, which Caffe2 has on the host only")
        array = value.numpy() if isinstance(value, DeviceTensor) else value
        return put_on(array, device, real_device(device, self._choices))


class _Overlay:
    """The blobs of a run under way, over those that it was given."""

    def __init__(self, given: Mapping[str, Value]) -> None:
        self._given = given
        self.values: dict[str, Tensor] = {}
        self.later: dict[str, Later] = {}
        self.objects: dict[str, Opaque] = {}

    def get(self, name: str, /) -> Value | None:
        if name in self.later:
            self.values[name] = self.later.pop(name).compute(name)
        found: Value | None = self.values[name] if name in self.values else self.objects.get(name)
        return self._given.get(name) if found is None else found

    def tensor(self, name: str) -> Tensor:
        value = self.get(name)
        if value is None or isinstance(value, Opaque | bytes):
            raise NoBlobError(f"blob {name!r}, which is to be copied, is no tensor in the workspace")
        return value

    def take(self, results: Results) -> None:
        for name in results.later:
            self.values.pop(name, None)
        for name in results.values:
            self.later.pop(name, None)
        self.values.update(results.values)
        self.later.update(results.later)
        self.objects.update(results.objects)


def make_program(
    net: NetDef,
    device: str | None,
    choices: Choices,
    *,
    init: InitNet | None = None,
    state: bool = True,
) -> Runnable:
    """The program for a net.

    Args:
        net: the net; it is not to be changed any more.
        device: None follows the net's device options; ``cpu`` ignores them; ``cuda:N`` runs a net without options
            there as a whole, and puts this GPU in the place of those that options name.
        choices: how.
        init: parameters that are constants.
        state: see Program.
    """
    if device is None:
        return (
            StagedProgram(net, choices, init=init, state=state)
            if names_gpu(net)
            else Program(net, CPU, choices, init=init, state=state)
        )
    if device == CPU or not names_devices(net):
        return Program(net, device, choices, init=init, state=state)
    return StagedProgram(net, choices, int(device.partition(":")[2]), init=init, state=state)

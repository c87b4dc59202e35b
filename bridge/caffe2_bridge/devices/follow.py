"""Place operators where their operands are, and parameters where they are read; copies then join them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from google.protobuf.message import Message

from caffe2_bridge.control import parsed_bodies
from caffe2_bridge.devices.cuda import has_cuda_version
from caffe2_bridge.devices.device import HOST, Device, as_device
from caffe2_bridge.devices.flow import FlowStep, build_flow
from caffe2_bridge.devices.infer import write_option
from caffe2_bridge.devices.operand_sides import Side
from caffe2_bridge.diagnostics import BridgeError, Location
from caffe2_bridge.netdef.views import as_net_def
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

_PREDICT: Final = Location("predict")
Runs = Callable[[OperatorDef], bool]


def follow_inputs(
    net: Message | bytes,
    input_devices: Mapping[str, Any],
    followers: Iterable[str] = (),
    *,
    everywhere: Any = None,
    has_gpu_version: Runs = has_cuda_version,
) -> tuple[NetDef, dict[str, Device]]:
    """Give every operator, in bodies too, the device of its operands, which need not agree.

    An operator runs on the GPU of its first operand that is on one; operands that are on the host whatever the
    operator's device do not count. If no operand decides, it runs where its outputs are read. Operators that only run
    their bodies run on the host, and so do operators without a GPU version.

    Args:
        net: the net. Its device options are replaced.
        input_devices: where external inputs are; what is neither here nor in ``followers`` is on the host.
        followers: inputs that can be anywhere, such as parameters: each is put where it is first read.
        everywhere: run every operator that has a version for this device on it, wherever its operands are.
        has_gpu_version: which operators can run on a GPU.

    Returns:
        A new net without copies (:func:`insert_copies` puts them in), and the device of each external input.
        Raises BridgeError if ``input_devices`` has a name that is not an external input.
    """
    result = NetDef()
    result.CopyFrom(as_net_def(net))
    external = set(result.external_input)
    unknown = [name for name in input_devices if name not in external]
    if unknown:
        raise BridgeError(f"the net has no external input {unknown[0]!r}")
    result.ClearField("device_option")
    with parsed_bodies(result):
        flow = build_flow(result, _PREDICT)
        free = set(followers) - set(input_devices)
        given = {
            value: as_device(input_devices.get(name, HOST))
            for (name, version), value in flow.versioned.items()
            if version == 0 and name not in free
        }
        found = _Sweep(flow.steps, len(flow.names), given, everywhere, has_gpu_version)
        found.run()
        for number, step in enumerate(flow.steps):
            if step.proto is not None:
                step.proto.ClearField("device_option")
                write_option(step.proto, found.device(number), result.device_option)
        inputs = {name: found.values[flow.versioned[name, 0]] or HOST for name in result.external_input}
    return result, inputs


class _Sweep:
    """Devices of steps and values, by sweeps over the steps until nothing changes: unknown, the host, a GPU."""

    def __init__(
        self, steps: list[FlowStep], count: int, given: Mapping[int, Device], everywhere: Any, has_gpu_version: Runs
    ) -> None:
        self._steps = steps
        self._given = given
        self.values: list[Device | None] = [given.get(value) for value in range(count)]
        self._own: list[Device | None] = [None] * len(steps)
        wanted = None if everywhere is None else as_device(everywhere)
        self._fixed: dict[int, Device] = {}
        for number, step in enumerate(steps):
            if step.proto is None:
                continue
            if step.is_dispatch or not has_gpu_version(step.proto):
                self._fixed[number] = HOST
            elif wanted is not None:
                self._fixed[number] = wanted

    def device(self, number: int) -> Device:
        """Return where a step's operator runs."""
        return self._own[number] or HOST

    def run(self) -> None:
        """Sweep: first what operands say, then, for what they leave open, what readers say."""
        while self._forward() or self._backward():
            pass

    def _forward(self) -> bool:
        changed = False
        for number, step in enumerate(self._steps):
            if step.proto is None:
                changed |= self._join(step)
                continue
            device = self._fixed.get(number) or self._first(step.inputs, step.sides[0])
            own = self._own[number]
            if device is None or (own is not None and own.is_gpu):
                device = own  # a GPU outdoes the host
            if device != own:
                self._own[number] = device
                changed = True
            if step.is_dispatch:
                continue
            for value, side in zip(step.outputs, step.sides[1], strict=True):
                changed |= self._tell(value, HOST if side is Side.HOST else device if side is not Side.FREE else None)
        return changed

    def _join(self, step: FlowStep) -> bool:
        held = Side.HOST in step.sides[0]
        return self._tell_all(step.inputs, HOST if held else self._first(step.inputs, step.sides[0]))

    def _tell_all(self, values: Iterable[int], device: Device | None) -> bool:
        new = [self._tell(value, device) for value in values]  # each of them, not until the first that is new
        return any(new)

    def _first(self, values: Iterable[int], sides: Iterable[Side]) -> Device | None:
        """Return the first GPU among operands that are where their operator is; else the host, if one is there."""
        known = [
            device
            for value, side in zip(values, sides, strict=True)
            if side in (Side.SAME, Side.GPU) and (device := self.values[value]) is not None
        ]
        return next((device for device in known if device.is_gpu), known[0] if known else None)

    def _tell(self, value: int, device: Device | None) -> bool:
        """Note where a value is; a GPU outdoes the host, what was given stays. Whether that was new."""
        known = self.values[value]
        if device is None or value in self._given or known == device or (known is not None and known.is_gpu):
            return False
        if known is not None and not device.is_gpu:
            return False
        self.values[value] = device
        return True

    def _backward(self) -> bool:
        """Place what is still open, from the last step on: values where they are read, operators where those are."""
        changed = False
        for number in range(len(self._steps) - 1, -1, -1):
            step = self._steps[number]
            if step.proto is None or step.is_dispatch:
                continue
            if self._own[number] is None:
                device = self._first(step.outputs, step.sides[1])
                if device is not None:
                    self._own[number] = device
                    changed = True
        if changed:
            return True
        for number, step in enumerate(self._steps):
            own = self._own[number]
            for value, side in zip(step.inputs, step.sides[0], strict=True):
                if step.proto is None or self.values[value] is not None:
                    continue
                device = HOST if side is Side.HOST else own if side is Side.SAME else None
                changed |= self._tell(value, device)
        return changed

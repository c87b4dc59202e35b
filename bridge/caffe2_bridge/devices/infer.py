"""Infer the devices of blobs from those of the inputs, and write device options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from google.protobuf.message import Message

from caffe2_bridge.control import parsed_bodies
from caffe2_bridge.devices.device import HOST, Device, as_device
from caffe2_bridge.devices.flow import Flow, FlowStep, build_flow
from caffe2_bridge.devices.operand_sides import Side
from caffe2_bridge.devices.status import FixedPoint, Statuses, known_values
from caffe2_bridge.diagnostics import BridgeError, ConversionError, Diagnostic, Location
from caffe2_bridge.netdef.views import as_net_def
from caffe2_bridge.proto.caffe2_pb2 import DeviceOption, NetDef, OperatorDef
from caffe2_bridge.ssa.versions import VersionedBlob

_CPU: Final = "cpu"
_GPU: Final = "cuda"
_STYLES: Final = {"caffe2": {_CPU: "cpu", _GPU: "gpu"}, "pytorch": {_CPU: "cpu", _GPU: "cuda"}}
_PREDICT: Final = Location("predict")
_INIT: Final = Location("init")


def infer_device_type(
    predict_net: Message | bytes,
    known_status: Mapping[VersionedBlob, Any],
    device_name_style: str = "caffe2",
    *,
    unknown: str | None = "cpu",
) -> dict[VersionedBlob, str]:
    """Infer the kind of device that each versioned blob of a net is on.

    The operands of an operator are on its device, except those that are always on the host, those of copies between
    devices, and those that an operator only passes to its bodies.

    Args:
        predict_net: the net. Its device options count only for blobs that no known status reaches.
        known_status: where some blobs are, by name and version: anything that :func:`as_device` takes.
        device_name_style: ``caffe2`` gives ``cpu`` and ``gpu``, ``pytorch`` gives ``cpu`` and ``cuda``.
        unknown: the kind of blobs that nothing forces anywhere; None makes them an error that names them, except
            external inputs that no operator reads: the result lacks these.

    Returns:
        The kind by versioned blob, of all that the net declares, reads or writes. Raises ConversionError with all
        conflicts, each with both operators (or what was given) that force it.
    """
    if device_name_style not in _STYLES:
        raise BridgeError(f"device_name_style must be one of {', '.join(_STYLES)}, not {device_name_style!r}")
    flow = build_flow(as_net_def(predict_net), _PREDICT)
    known = {value: as_device(what) for value, what in known_values(flow, known_status).items()}
    kinds = _kinds(flow, known)
    rest = _kind_of_unknown(unknown)
    if unknown is None:
        used = {value for step in flow.steps for value in (*step.inputs, *step.outputs)}
        findings = [
            Diagnostic(
                "unknown-device",
                f"the device of version {version} of blob {name!r} is unknown",
                _PREDICT,
                hint="give it in known_status, or a default with unknown='cpu'",
            )
            for (name, version), value in flow.versioned.items()
            if kinds[value] is None and value in used
        ]
        if findings:
            raise ConversionError(findings)
    style = _STYLES[device_name_style]
    found = {blob: kinds[value] or rest for blob, value in flow.versioned.items()}
    return {blob: style[kind] for blob, kind in found.items() if kind is not None}


def _kind_of_unknown(unknown: object) -> str | None:
    if unknown is None:
        return None
    if not isinstance(unknown, str | Device):
        raise BridgeError(f"unknown must be a device, such as 'cpu' or 'cuda', or None, not {unknown!r}")
    try:
        return as_device(unknown).kind
    except BridgeError as error:
        raise BridgeError(f"unknown: {error}") from None


def infer_output_devices(predict_net: Message | bytes, tensor_inputs: Sequence[Any] | Mapping[str, Any]) -> list[str]:
    """Return where external outputs are, in order, as ``cpu`` or ``cuda:1``; inputs as in :func:`assign_device_option`.

    Raises BridgeError where an external output is a blob that the net does not have.
    """
    net = as_net_def(predict_net)
    flow = build_flow(net, _PREDICT)
    devices = value_devices(flow, _known_inputs(flow, net, tensor_inputs))
    missing = [name for name in net.external_output if name not in flow.last]
    if missing:
        raise BridgeError(f"the net neither reads nor writes external output {missing[0]!r}")
    return [str(devices[flow.last[name]]) for name in net.external_output]


def assign_device_option(
    predict_net: Message | bytes,
    init_net: Message | bytes | None,
    tensor_inputs: Sequence[Any] | Mapping[str, Any],
) -> tuple[NetDef, NetDef | None]:
    """Return nets whose operators run where the inputs are, bodies included.

    Args:
        predict_net: the net.
        init_net: makes each parameter where the predict net wants it.
        tensor_inputs: where the inputs are: arrays, tensors or anything else that :func:`as_device` takes, by blob
            name, or in order for the first external inputs.

    Returns:
        New nets. Operators on a GPU have a device option; those on the host have none, unless their net or they
        themselves had another. Operators that only run bodies run on the host, where they read their condition. Raises
        ConversionError with all conflicts: :func:`insert_copies` resolves them once operators have devices.
    """
    predict = NetDef()
    predict.CopyFrom(as_net_def(predict_net, "predict_net"))
    with parsed_bodies(predict):
        flow = build_flow(predict, _PREDICT)
        devices = value_devices(flow, _known_inputs(flow, predict, tensor_inputs))
        _write_options(flow, devices, predict)
    if init_net is None:
        return predict, None
    init = NetDef()
    init.CopyFrom(as_net_def(init_net, "init_net"))
    made = build_flow(init, _INIT)
    wanted = {name: devices[value] for (name, version), value in flow.versioned.items() if version == 0}
    known = {made.last[name]: device for name, device in wanted.items() if name in made.last}
    _write_options(made, value_devices(made, known), init)
    return predict, init


def _known_inputs(flow: Flow, net: NetDef, tensor_inputs: Sequence[Any] | Mapping[str, Any]) -> dict[int, Device]:
    if isinstance(tensor_inputs, Mapping):
        named = dict(tensor_inputs)
    else:
        external = list(dict.fromkeys(net.external_input))
        if len(tensor_inputs) > len(external):
            raise BridgeError(f"{len(tensor_inputs)} inputs are given, but the net has {len(external)}")
        named = dict(zip(external, tensor_inputs, strict=False))
    known = known_values(flow, {(name, 0): what for name, what in named.items()})
    return {value: as_device(what) for value, what in known.items()}


def value_devices(flow: Flow, known: Mapping[int, Device]) -> list[Device]:
    """Return the device of each value; a value that nothing constrains is on the host."""
    kinds = _kinds(flow, known)
    indices = {value: device.index for value, device in known.items() if device.is_gpu}

    def update(
        step: FlowStep, inputs: list[int | None], outputs: list[int | None]
    ) -> tuple[Statuses[int], Statuses[int]]:
        option = explicit_device(step.proto)
        free = step.proto is not None and step.proto.type == "Copy" and option is not None and option.is_gpu
        same = option.index if free and option else None
        sides, values = step.sides, (step.inputs, step.outputs)
        found: list[list[int | None]] = [list(inputs), list(outputs)]
        own = [
            (side, position)
            for side in (0, 1)
            for position, value in enumerate(values[side])
            if sides[side][position] is Side.SAME and kinds[value] == _GPU and not (free and side == 0)
        ]
        if same is None:
            same = next((found[s][p] for s, p in own if found[s][p] is not None), None)
        if same is not None:
            for s, p in own:
                found[s][p] = same
        return found[0], found[1]

    found = FixedPoint(flow, update, indices, "device").run()
    default = next(iter(indices.values()), 0)
    return [
        HOST if kind != _GPU else Device(_GPU, default if index is None else index)
        for kind, index in zip(kinds, found, strict=True)
    ]


def _kinds(flow: Flow, known: Mapping[int, Device]) -> list[str | None]:
    """Return ``cpu`` or ``cuda`` for each value, None if nothing constrains it."""
    kinds = {value: device.kind for value, device in known.items()}
    found = FixedPoint(flow, _update_kind, kinds, "device").run()
    options: dict[int, str] = {}
    for step in flow.steps:
        device = explicit_device(step.proto)
        if device is not None:
            for values, sides in zip((step.inputs, step.outputs), step.sides, strict=True):
                for value, side in zip(values, sides, strict=True):
                    if side is Side.SAME and found[value] is None:
                        options[value] = device.kind
    if not options:
        return found
    inferred = {value: kind for value, kind in enumerate(found) if kind is not None}
    return FixedPoint(flow, _update_kind, options | inferred, "device").run()


def _update_kind(
    step: FlowStep, inputs: list[str | None], outputs: list[str | None]
) -> tuple[Statuses[str], Statuses[str]]:
    if step.plain:
        known = {*inputs, *outputs}
        known.discard(None)
        if not known:
            return inputs, outputs
        if len(known) == 1:
            same = known.pop()
            return [same] * len(inputs), [same] * len(outputs)
    same = None
    for statuses, sides in zip((inputs, outputs), step.sides, strict=True):
        for status, side in zip(statuses, sides, strict=True):
            if same is None and status is not None and side is Side.SAME:
                same = status
    fixed = {Side.SAME: same, Side.HOST: _CPU, Side.GPU: _GPU}
    found = [
        [status if side is Side.FREE else fixed[side] for status, side in zip(statuses, sides, strict=True)]
        for statuses, sides in zip((inputs, outputs), step.sides, strict=True)
    ]
    return found[0], found[1]


def explicit_device(proto: OperatorDef | None) -> Device | None:
    """Return the device that an operator itself names."""
    if proto is None or not proto.HasField("device_option"):
        return None
    return as_device(proto.device_option)


def step_device(step: FlowStep, devices: Sequence[Device]) -> Device:
    """Return where an operator must run to have its operands where they are."""
    if step.proto is None or step.is_dispatch:
        return HOST
    for wanted in (Side.SAME, Side.GPU, Side.FREE):
        for values, sides in zip((step.inputs, step.outputs), step.sides, strict=True):
            for value, side in zip(values, sides, strict=True):
                if side is wanted:
                    return devices[value]
    return HOST


def _write_options(flow: Flow, devices: Sequence[Device], net: NetDef) -> None:
    for step in flow.steps:
        if step.proto is not None:
            write_option(step.proto, step_device(step, devices), net.device_option)


def write_option(proto: OperatorDef, device: Device, inherited: DeviceOption) -> None:
    """Set the device of an operator; the host is written only over another option. Seeds and other fields stay."""
    if device.is_gpu:
        proto.device_option.MergeFrom(device.option())
    elif as_device(proto.device_option if proto.HasField("device_option") else inherited).is_gpu:
        proto.device_option.device_type = HOST.option().device_type
        proto.device_option.ClearField("device_id")

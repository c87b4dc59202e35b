"""Read parameters from init nets, write them to init nets, and build models as Caffe2's mobile exporter does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
from google.protobuf.message import Message

from caffe2_bridge.diagnostics import BridgeError, ConversionError
from caffe2_bridge.init.evaluate import evaluate_init_net, parameters_among
from caffe2_bridge.init.fill_nets import fill_operators
from caffe2_bridge.model import read_init
from caffe2_bridge.netdef.parameters import NUMBERS, Array, Int8Tensor, Parameter
from caffe2_bridge.netdef.views import as_net_def
from caffe2_bridge.proto.caffe2_pb2 import Argument, DeviceOption, NetDef, OperatorDef
from caffe2_bridge.ssa.effects import effects_of
from caffe2_bridge.ssa.versions import get_ssa

_STRINGS: Final = "SUO"


Value: TypeAlias = Array | Int8Tensor


class Fetches(Protocol):
    """A workspace."""

    def fetch(self, name: str, /) -> Any:
        """Return the value of a blob."""


def get_params_from_init_net(
    init_net: Message | bytes, predict_net: Message | bytes | None = None
) -> tuple[dict[str, Value], dict[str, DeviceOption]]:
    """Return the parameters that an init net makes, without running Caffe2, and the devices of the operators that do.

    Args:
        init_net: fills, and operators that compute constants of constants, such as Caffe2's ONNX importer writes.
            Random fills draw the same values each time.
        predict_net: with it, fills of its inputs (which mobile init nets contain) are left out.

    Returns:
        Arrays by name (``object`` arrays of bytes for strings, Int8Tensor for quantized ones), and the device option of
        the operator that made each: an empty one, the CPU, for what ``CopyGPUToCPU`` makes. Where the init net declares
        external outputs, they lack blobs that only its own operators read. Raises ConversionError with all errors if an
        operator cannot be evaluated, or is one that Caffe2 would refuse.
    """
    init = read_init(as_net_def(init_net, "init_net"), predict_net)
    made, findings = evaluate_init_net(init)
    if findings:
        raise ConversionError(findings)
    read = () if predict_net is None else effects_of(as_net_def(predict_net, "predict_net"), "predict").found
    params: dict[str, Value] = {}
    devices: dict[str, DeviceOption] = {}
    for name in parameters_among(init, made, read):
        parameter = made[name]
        values = parameter.load()
        quantized = parameter.scale is not None
        params[name] = Int8Tensor(values, parameter.scale or 0.0, parameter.zero_point or 0) if quantized else values
        devices[name] = parameter.device or DeviceOption()
    return params, devices


def construct_init_net_from_params(
    params: Mapping[str, Any], device_options: Mapping[str, DeviceOption] | None = None
) -> NetDef:
    """Return an init net with a fill for each parameter.

    Args:
        params: arrays of any type that Caffe2 has, strings (of text or bytes) and Int8Tensor included.
        device_options: where each is to be made; those not named have none, which is the CPU.

    Returns:
        The net; its external outputs are the parameters. Raises BridgeError for values that no operator of Caffe2 makes
        without loss.
    """
    devices = device_options or {}
    net = NetDef(name="init", external_output=list(params))
    for name, value in params.items():
        for serialized in fill_operators(_parameter(name, value, devices.get(name))):
            net.op.append(OperatorDef.FromString(bytes(serialized)))
    return net


def _parameter(name: str, value: Any, device: DeviceOption | None) -> Parameter:
    scale = zero_point = None
    if isinstance(value, tuple) and len(value) == 3:
        value, scale, zero_point = value
    array = np.asarray(value)
    if array.dtype.kind in _STRINGS:
        texts = np.empty(array.shape, object)
        texts[...] = array
        array = np.asarray(np.frompyfunc(_as_bytes, 1, 1)(texts), object)
    if array.dtype not in NUMBERS:
        raise BridgeError(f"parameter {name!r} is {array.dtype}, an element type that Caffe2 does not have")
    option = device if device is not None and device.ListFields() else None
    return Parameter(name, array.dtype, array.shape, lambda: array, scale, zero_point, option)


def _as_bytes(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    raise BridgeError(f"a tensor of strings must hold str or bytes, not {type(value).__name__}")


def export_mobile(
    workspace_or_params: Fetches | Mapping[str, Any], net: Message | bytes, params: Iterable[str]
) -> tuple[NetDef, NetDef]:
    """Return a model as Caffe2's mobile exporter writes it, ready to be saved.

    Args:
        workspace_or_params: where the parameters are: a mapping, or anything with ``fetch(name)``.
        net: the net that computes.
        params: names of its parameters.

    Returns:
        The init net: the parameters, then for every other blob the net needs a fill of shape [1, 1] with one zero, so
        that the blob exists. The predict net, whose external inputs are the inputs, then the parameters and whatever
        else the net declares, and whose external outputs are the blobs that it writes and never reads.
    """
    proto = as_net_def(net)
    ssa, versions = get_ssa(proto)
    wanted = dict.fromkeys(map(str, params))
    inputs = [name for name, version in versions.items() if version == 0 and name not in wanted]
    read = {name for operands, _ in ssa for name, _ in operands}
    outputs = [name for name, version in versions.items() if version and name not in read]
    values = {name: _fetch(workspace_or_params, name) for name in wanted}
    init = construct_init_net_from_params(values)
    init.ClearField("external_output")  # the mobile exporter declares none
    for name in inputs:
        arguments = [Argument(name="shape", ints=[1, 1]), Argument(name="values", floats=[0.0])]
        init.op.append(OperatorDef(type="GivenTensorFill", output=[name], arg=arguments))
    predict = NetDef()
    predict.CopyFrom(proto)
    predict.external_input[:] = dict.fromkeys((*inputs, *proto.external_input))
    predict.external_output[:] = outputs
    return init, predict


def _fetch(source: Fetches | Mapping[str, Any], name: str) -> Any:
    if not isinstance(source, Mapping):
        return source.fetch(name)
    if name not in source:
        raise BridgeError(f"parameter {name!r} has no value")
    return source[name]

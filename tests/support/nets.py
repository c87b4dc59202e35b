"""Nets of a few operators: from short notations, and back to text for assertions."""

from __future__ import annotations

from conformance.recording import ArgumentValue, operator
from google.protobuf import text_format

from caffe2_bridge.devices import Device, as_device
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef


def parse(text: str) -> NetDef:
    """Return a net from protobuf text."""
    return text_format.Parse(text, NetDef())


def op(kind: str, inputs: str, outputs: str, device: Device | None = None, **args: ArgumentValue) -> OperatorDef:
    """Return an operator; names of operands are separated by blanks."""
    proto = operator(kind, inputs.split(), outputs.split(), **args)
    if device is not None:
        proto.device_option.CopyFrom(device.option())
    return proto


def net(*ops: OperatorDef, inputs: str = "x", outputs: str = "y") -> NetDef:
    """Return a net of operators; names of external inputs and outputs are separated by blanks."""
    return NetDef(name="n", op=ops, external_input=inputs.split(), external_output=outputs.split())


def body(op: OperatorDef, name: str) -> NetDef:
    """Return the net in an argument."""
    (arg,) = [arg for arg in op.arg if arg.name == name]
    return arg.n


def lines(proto: NetDef) -> list[str]:
    """Return each operator as ``Type(inputs) -> outputs``, with its device if that is a GPU."""
    found = []
    for each in proto.op:
        device = as_device(each.device_option)
        place = f" @{device}" if device.is_gpu else ""
        found.append(f"{each.type}({', '.join(each.input)}) -> {', '.join(each.output)}{place}")
    return found


def arrows(proto: NetDef) -> list[str]:
    """Return each operator as ``Type: inputs -> outputs``."""
    return [f"{op.type}: {' '.join(op.input)} -> {' '.join(op.output)}" for op in proto.op]

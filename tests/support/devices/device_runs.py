"""Random nets with devices, and runs of them that hold every operand to where its operator looks for it.

A value is the hash of the operator type and of what it read, so that equal values prove equal dataflow.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from hypothesis import strategies as st

from caffe2_bridge.devices import HOST, Device, Side, as_device, operand_sides
from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.proto.caffe2_pb2 import DeviceOption, NetDef, OperatorDef

POOL = ("a", "b", "c", "d", "e")
DEVICES = (HOST, Device("cuda", 0), Device("cuda", 1))
TRIPS = 2


@dataclass(frozen=True)
class Blob:
    value: int
    device: Device


def mix(*parts: object) -> int:
    return zlib.crc32(repr(parts).encode())


def start(devices: dict[str, Device] | None = None) -> dict[str, Blob]:
    return {name: Blob(mix(name), (devices or {}).get(name, HOST)) for name in POOL}


def run(net: NetDef, blobs: dict[str, Blob], default: DeviceOption | None = None) -> dict[str, Blob]:
    """Run a net in place of ``blobs``. A wrong place is a failed assertion."""
    option = default if default is not None else net.device_option
    for index, proto in enumerate(net.op):
        op = OpView(proto, index)
        if op.type == "If":
            cond = blobs[op.inputs[0]]
            assert cond.device == HOST
            body = op.args.net("then_net" if cond.value % 2 else "else_net", None)
            if body is not None:
                run(body, blobs, option)
        elif op.type == "While":
            for _ in range(TRIPS):
                assert blobs[op.inputs[0]].device == HOST
                body = op.args.net("loop_net")
                assert body is not None
                run(body, blobs, option)
        else:
            plain(proto, blobs, option)
    return blobs


def plain(proto: OperatorDef, blobs: dict[str, Blob], default: DeviceOption) -> None:
    device = as_device(proto.device_option if proto.HasField("device_option") else default)
    inputs = [blobs[name] for name in proto.input]
    if proto.type in {"CopyCPUToGPU", "CopyGPUToCPU"}:
        gpu = device if device.is_gpu else Device("cuda")
        source, target = (HOST, gpu) if proto.type == "CopyCPUToGPU" else (gpu, HOST)
        assert inputs[0].device == source, proto
        blobs[proto.output[0]] = Blob(inputs[0].value, target)
        return
    if proto.type == "Copy":
        assert inputs[0].device.is_gpu == device.is_gpu, proto
        blobs[proto.output[0]] = Blob(inputs[0].value, device)
        return
    if proto.type == "ScatterAssign":
        assert proto.input[0] == proto.output[0]
    sides = operand_sides(proto)
    place = {Side.SAME: device, Side.HOST: HOST}
    for blob, side in zip(inputs, sides[0], strict=True):
        assert side not in place or blob.device == place[side], proto
    for position, (name, side) in enumerate(zip(proto.output, sides[1], strict=True)):
        blobs[name] = Blob(mix(proto.type, position, [blob.value for blob in inputs]), place[side])


def without_devices(net: NetDef) -> NetDef:
    bare = NetDef()
    bare.CopyFrom(net)
    bare.ClearField("device_option")
    for op in bare.op:
        op.ClearField("device_option")
        for arg in op.arg:
            if arg.HasField("n"):
                arg.n.CopyFrom(without_devices(arg.n))
    return bare


KINDS = {"Relu": (1, 1), "Add": (2, 1), "Reshape": (2, 1), "LearningRate": (1, 1), "Concat": (2, 2), "Sum": (3, 1)}


@st.composite
def operators(draw: st.DrawFn, depth: int) -> OperatorDef:
    name = st.sampled_from(POOL)
    kind = draw(st.sampled_from([*KINDS, "ScatterAssign", *(["If", "While"] if depth else [])]))
    if kind in {"If", "While"}:
        op = OperatorDef(type=kind, input=[draw(name)])
        for body in ("then_net", "else_net") if kind == "If" else ("loop_net",):
            if body != "else_net" or draw(st.booleans()):
                op.arg.add(name=body).n.CopyFrom(draw(nets(depth - 1, most=3)))
        op.output.extend(draw(st.lists(name, max_size=2, unique=True)))
        if kind == "If":
            draw(shared_writes(op))
        return op
    if kind == "ScatterAssign":
        op = OperatorDef(type=kind, input=draw(st.permutations(POOL))[:3])
        op.output.append(op.input[0])
    else:
        reads, writes = KINDS[kind]
        op = OperatorDef(type=kind, input=[draw(name) for _ in range(reads)])
        op.output.extend(draw(st.permutations(POOL))[:writes])
    device = draw(st.sampled_from((None, *DEVICES)))
    if device is not None:
        op.device_option.CopyFrom(device.option())
    return op


@st.composite
def shared_writes(draw: st.DrawFn, op: OperatorDef) -> None:
    """Have all branches write the same blobs, and the operator declare some of them."""
    shared = draw(st.lists(st.sampled_from(POOL), max_size=2, unique=True))
    for arg in op.arg:
        for target in shared:
            written = OperatorDef(type="Relu", input=[draw(st.sampled_from(POOL))], output=[target])
            position = draw(st.integers(0, len(arg.n.op)))
            ops = [*arg.n.op[:position], written, *arg.n.op[position:]]
            arg.n.CopyFrom(NetDef(op=ops))
    op.output.extend(blob for blob in shared if blob not in op.output and draw(st.booleans()))


@st.composite
def nets(draw: st.DrawFn, depth: int = 2, most: int = 7) -> NetDef:
    return NetDef(op=draw(st.lists(operators(depth), min_size=1, max_size=most)))


@st.composite
def whole_nets(draw: st.DrawFn, depth: int = 2, most: int = 7) -> NetDef:
    net = draw(nets(depth, most))
    net.external_input.extend(POOL)
    net.external_output.extend(draw(st.lists(st.sampled_from(POOL), min_size=1, max_size=3, unique=True)))
    return net

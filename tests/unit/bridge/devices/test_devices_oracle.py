"""Operands' devices and copies between devices are those of real Caffe2, where it is right."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import numpy as np
import pytest
from conformance.oracle import find_oracle
from support.paths import GOLDEN, SUPPORT

from caffe2_bridge.control import is_control
from caffe2_bridge.devices import HOST, Device, Side, cuda_operators, follow_inputs, insert_copies, operand_sides
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

GPU: Final = Device("cuda", 1)
# Operators whose schemas say less than their kernels, which look for the operand on the host.
SCHEMA_IS_SILENT: Final = {
    "AtomicIter", "Checkpoint", "GRUUnit", "GRUUnitGradient", "If", "AsyncIf", "While", "ONNXWhile", "HasScope",
    "Iter", "LSTMUnit", "LSTMUnitGradient", "OneHot", "ReceiveTensor", "Reshape", "SendTensor", "Snapshot", "YellowFin",
    "rnn_internal_accumulate_gradient_input", "rnn_internal_apply_link",
}  # fmt: skip
DETECTRON: Final = {
    "GroupSpatialSoftmax", "PSRoIPool", "RoIPoolF", "SampleAs", "SelectSmoothL1Loss", "SigmoidCrossEntropyLoss",
    "SigmoidFocalLoss", "SmoothL1Loss", "SoftmaxFocalLoss", "SpatialNarrowAs", "UpsampleNearest",
}  # fmt: skip


def recorded_nets() -> Iterator[NetDef]:
    for path in sorted((GOLDEN / "nets").glob("*.npz")):
        with np.load(path, allow_pickle=False) as archive:
            for index, meta in enumerate(json.loads(archive["meta"].tobytes())):
                if meta["kind"] == "net":
                    yield NetDef.FromString(archive[f"{index:03d}/proto"].tobytes())


def plain_nets() -> Iterator[NetDef]:
    """Yield recorded nets that real Caffe2's copies are right for.

    It goes by names, so each must be written once; and it does not enter bodies.
    """
    for given in recorded_nets():
        written = [*given.external_input, *(name for op in given.op for name in op.output)]
        free = any(Side.FREE in side for op in given.op for side in operand_sides(op))
        if len(given.op) < 3 or len(set(written)) < len(written) or free:
            continue
        if any(is_control(op) or op.type in SCHEMA_IS_SILENT for op in given.op):
            continue
        net = NetDef(name="plain", op=given.op, external_input=given.external_input)
        for op in net.op:
            op.ClearField("device_option")
        yield net


def spread_over_devices() -> list[NetDef]:
    """Return nets with every third operator on a GPU."""
    nets = list(plain_nets())
    for net in nets:
        for index, op in enumerate(net.op):
            if index % 3 == 1:
                op.device_option.CopyFrom(GPU.option())
    return nets


def following_inputs() -> list[tuple[NetDef, dict[str, Device]]]:
    """Return nets whose first input is on a GPU and the second on the host; the others are anywhere."""
    nets = [net for net in plain_nets() if net.external_input]
    return [
        follow_inputs(net, dict(zip(net.external_input, (GPU, HOST), strict=False)), net.external_input[2:])
        for net in nets
    ]


@cache
def answers() -> dict[str, Any]:
    python = find_oracle()
    assert python is not None
    given: list[tuple[NetDef, dict[str, Device]]] = [(net, {}) for net in spread_over_devices()]
    nets = [
        (base64.b64encode(net.SerializeToString()).decode(), {n: d.index if d.is_gpu else -1 for n, d in where.items()})
        for net, where in given + following_inputs()
    ]
    request = json.dumps({"nets": nets})
    command = [python, SUPPORT / "devices" / "caffe2_devices.py", "/dev/stdin"]
    done = subprocess.run(command, input=request, capture_output=True, text=True, check=True)  # noqa: S603 - as above
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.mark.oracle
def test_operands_are_where_real_caffe2_infers_them() -> None:
    where = {Side.SAME: GPU, Side.HOST: HOST, Side.GPU: GPU}
    wrong, compared = [], 0
    for kind, cases in answers()["operands"].items():
        for inputs, outputs, *devices in cases:
            sides = operand_sides(OperatorDef(type=kind, input=inputs, output=outputs))
            for found, expected in zip(sides, devices, strict=True):
                for position, (side, (device_type, index)) in enumerate(zip(found, expected, strict=False)):  # NCCL
                    compared += 1
                    there = Device("cuda", index) if device_type else HOST
                    if side is not Side.FREE and where[side] != there and kind not in SCHEMA_IS_SILENT:
                        wrong.append((kind, len(inputs), position, side, str(there)))
    assert wrong == []
    assert compared > 5000


@pytest.mark.oracle
def test_copies_are_those_of_real_caffe2() -> None:
    compared = 0
    for net, answer in zip(spread_over_devices(), answers()["nets"], strict=False):
        if "error" in answer:
            continue
        compared += 1
        assert described(insert_copies(net)[0]) == answer["ops"]
    assert compared > 20


@pytest.mark.oracle
def test_copies_for_operators_that_follow_their_inputs() -> None:
    compared = 0
    nets = following_inputs()
    for (net, where), answer in zip(nets, answers()["nets"][-len(nets) :], strict=True):
        if "error" in answer:
            continue
        compared += any(op.device_option.device_type for op in net.op)
        assert described(insert_copies(net, where)[0]) == answer["ops"]
    assert compared > 20


def described(net: NetDef) -> list[Any]:
    return [
        [op.type, list(op.input), list(op.output), [op.device_option.device_type, op.device_option.device_id]]
        for op in net.op
    ]


@pytest.mark.oracle
def test_the_register_of_cuda_operators() -> None:
    register = answers()["cuda"]
    if register is None:
        pytest.skip("this build of real Caffe2 has no CUDA operators")
    # Detectron's operators are in a library of their own, which is not loaded.
    here = {name for name in cuda_operators() if name.removesuffix("Gradient") not in DETECTRON}
    assert {name for name in register if name and "_ENGINE_" not in name} == here

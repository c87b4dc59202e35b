"""Recorded nets, spread over devices and brought together by copies, compute in real Caffe2 what was recorded.

It has no GPU here: once the copies are in place, those between devices become plain ones.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest
from conformance.corpus import Case, CaseRef, find_cases, read_case
from conformance.oracle import OracleRun, run_oracle
from support.paths import GOLDEN

from caffe2_bridge.control import parsed_bodies
from caffe2_bridge.devices import Device, follow_inputs, fuse_copies, insert_copies
from caffe2_bridge.graph_edit import remove_dead_end_ops
from caffe2_bridge.proto.caffe2_pb2 import NetDef

GPU: Final = Device("cuda", 1)
BETWEEN: Final = {"CopyCPUToGPU", "CopyGPUToCPU"}


def sample() -> list[CaseRef]:
    refs = [ref for ref in find_cases(GOLDEN / "models") if ref.index == 0]
    for name in ("rnn_cell_test", "brew_test", "layers_test", "recurrent_network_test"):
        refs += find_cases(GOLDEN / "nets" / f"{name}.npz")[::5]
    return refs


def spread(net: NetDef) -> None:
    """Put every third operator on a GPU, bodies included; a gradient operator stays with its forward operator."""
    kept = {"RecurrentNetwork"} if any(op.type == "RecurrentNetworkGradient" for op in net.op) else set()
    for index, op in enumerate(net.op):
        op.ClearField("device_option")
        if index % 3 == 1 and op.type not in {*kept, "RecurrentNetworkGradient"}:
            op.device_option.CopyFrom(GPU.option())
        for arg in op.arg:
            if arg.HasField("n"):
                spread(arg.n)


def gather(net: NetDef) -> int:
    """Put everything on the host; return how many copies there are between devices."""
    count = 0
    for op in net.op:
        op.ClearField("device_option")
        if op.type in BETWEEN:
            op.type, count = "Copy", count + 1
        count += sum(gather(arg.n) for arg in op.arg if arg.HasField("n"))
    return count


def changed(case: Case, way: str) -> tuple[NetDef, int]:
    """Return the net with its copies, fused and pruned, and their number."""
    net = NetDef()
    net.CopyFrom(case.net)
    net.external_output[:] = list(case.outputs)
    where: dict[str, Device] = {}
    if way == "spread":
        with parsed_bodies(net):
            spread(net)
    else:
        inputs = list(dict.fromkeys(net.external_input))
        net, where = follow_inputs(net, dict.fromkeys(inputs[::3], GPU), inputs[1::3])
    net = remove_dead_end_ops(fuse_copies(insert_copies(net, where)[0]))
    with parsed_bodies(net):
        count = gather(net)
    return net, count


@pytest.mark.oracle
@pytest.mark.parametrize("way", ["spread", "follow inputs"])
def test_nets_with_copies_compute_what_was_recorded(way: str) -> None:
    cases = [read_case(ref) for ref in sample()]
    nets = [changed(case, way) for case in cases]
    assert sum(count > 0 for _, count in nets) > len(nets) / 2
    runs = [
        OracleRun(net, case.inputs, case.init_net, list(case.outputs), case.quantized)
        for case, (net, _) in zip(cases, nets, strict=True)
    ]
    results = run_oracle(runs)
    assert [case.ref.id for case, result in zip(cases, results, strict=True) if result.error] == []
    for case, result in zip(cases, results, strict=True):
        for name, expected in case.outputs.items():
            if name not in result.opaque and expected.dtype != object:
                np.testing.assert_allclose(result.outputs[name], expected, 1e-3, 1e-4, err_msg=f"{case.ref.id} {name}")

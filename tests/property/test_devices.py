"""Devices against runs that check every operand's place, and against brute force."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.devices.device_runs import DEVICES, KINDS, POOL, Blob, nets, run, start, whole_nets, without_devices

from caffe2_bridge.devices import (
    HOST,
    Device,
    Side,
    as_device,
    assign_device_option,
    fuse_copies,
    infer_device_type,
    insert_copies,
    operand_sides,
    place,
)
from caffe2_bridge.devices.copies.copy_operators import copy_operator
from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.ssa import get_ssa

SETTINGS = settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
GPU = DEVICES[1]


def values(blobs: dict[str, Blob]) -> dict[str, int]:
    return {name: blobs[name].value for name in POOL}


@SETTINGS
@given(whole_nets(), st.sampled_from(DEVICES), st.sampled_from(DEVICES))
def test_with_copies_every_operand_is_in_place_and_all_values_are_the_same(
    net: NetDef, default: Device, a_is_on: Device
) -> None:
    net.device_option.CopyFrom(default.option())
    before = net.SerializeToString(deterministic=True)
    copied, devices = insert_copies(net, {"a": a_is_on})
    assert net.SerializeToString(deterministic=True) == before
    there = dict.fromkeys(POOL, default) | {"a": a_is_on}
    after = run(copied, start(there))
    assert values(after) == values(run(without_devices(net), start()))
    assert {name: str(after[name].device) for name in POOL if name in devices} == {
        name: devices[name] for name in POOL if name in devices
    }
    assert insert_copies(copied, {"a": a_is_on})[0] == copied


@SETTINGS
@given(whole_nets(depth=1), st.data())
def test_fused_nets_give_the_same_external_outputs(net: NetDef, data: st.DataObject) -> None:
    """Draw random copies between random operators, then insert those that the placement needs."""
    placed = NetDef(external_input=net.external_input, external_output=net.external_output)
    for op in net.op:
        for _ in range(data.draw(st.integers(0, 3))):
            here = insert_copies(placed)[1]
            name, target = (data.draw(st.sampled_from(POOL)) for _ in range(2))
            origin = as_device(here.get(name, HOST))
            to = data.draw(st.sampled_from([device for device in DEVICES if device != origin]))
            placed.op.append(copy_operator(name, target, origin, to))
        placed.op.append(op)
    copied, _ = insert_copies(placed)
    fused = fuse_copies(copied)
    assert len(fused.op) <= len(copied.op)
    expected, found = run(copied, start()), run(fused, start())
    assert [expected[name] for name in net.external_output] == [found[name] for name in net.external_output]
    assert fuse_copies(fused) == fused


def inferred_slowly(net: NetDef, known: dict[tuple[str, int], str]) -> dict[tuple[str, int], str] | None:
    """Return what the definition gives, applied until nothing changes; None where it contradicts itself."""
    found = dict(known)
    ssa, _ = get_ssa(net)
    while True:
        more = dict(found)
        for op, operands in zip(net.op, ssa, strict=True):
            pairs = [pair for side in (0, 1) for pair in zip(operands[side], operand_sides(op)[side], strict=True)]
            same = next((more[blob] for blob, side in pairs if side is Side.SAME and blob in more), None)
            for blob, side in pairs:
                wanted = {Side.SAME: same, Side.HOST: "cpu", Side.GPU: "gpu", Side.FREE: None}[side]
                if wanted is not None and more.setdefault(blob, wanted) != wanted:
                    return None
        if more == found:
            return found
        found = more


@SETTINGS
@given(whole_nets(depth=0), st.dictionaries(st.sampled_from(POOL), st.sampled_from(("cpu", "gpu")), max_size=3))
def test_inference_is_the_fixed_point_of_the_definition(net: NetDef, inputs: dict[str, str]) -> None:
    known = {(name, 0): kind for name, kind in inputs.items()}
    net = without_devices(net)
    expected = inferred_slowly(net, known)
    if expected is None:
        with pytest.raises(ConversionError, match="conflicting device"):
            infer_device_type(net, known)
        return
    assert infer_device_type(net, known) == {blob: expected.get(blob, "cpu") for blob in infer_device_type(net, known)}


@SETTINGS
@given(whole_nets(), st.dictionaries(st.sampled_from(POOL), st.sampled_from(DEVICES), max_size=3))
def test_assigned_devices_need_no_copies(net: NetDef, inputs: dict[str, Device]) -> None:
    net = without_devices(net)
    try:
        assigned, _ = assign_device_option(net, None, inputs)
    except ConversionError:
        return
    devices = infer_device_type(net, {(name, 0): device for name, device in inputs.items()})
    there = {
        name: inputs.get(name, next((d for d in inputs.values() if d.is_gpu), GPU))
        if devices[name, 0] == "gpu"
        else HOST
        for name in POOL
    }
    if len({device for device in inputs.values() if device.is_gpu}) < 2:
        assert values(run(assigned, start(there))) == values(run(net, start()))


class Costs:
    """Integers that depend on the operator's place in the net alone."""

    def __init__(self, table: list[tuple[int | None, int | None]], transfer: dict[str, int]) -> None:
        self.table, self.moves = table, transfer

    def operator(self, op: OperatorDef, device: Device) -> float | None:
        return self.table[int(op.name)][device.is_gpu]

    def transfer(self, blob: str) -> float:
        return self.moves[blob]


def cost_of(net: NetDef, on_gpu: dict[int, bool], entry: dict[str, bool], costs: Costs) -> float | None:
    total = 0.0
    ssa, _ = get_ssa(net)
    made = {(name, 0): side for name, side in entry.items()}
    readers: dict[tuple[str, int], set[bool]] = {}
    for index, (op, operands) in enumerate(zip(net.op, ssa, strict=True)):
        cost = costs.table[index][on_gpu[index]]
        if cost is None:
            return None
        total += cost
        sides = operand_sides(op)
        place_of = {Side.SAME: on_gpu[index], Side.HOST: False}
        for blob, side in zip(operands[0], sides[0], strict=True):
            if side in place_of:
                readers.setdefault(blob, set()).add(place_of[side])
        for blob, side in zip(operands[1], sides[1], strict=True):
            made[blob] = place_of[side]
    return total + sum(costs.moves[blob[0]] for blob, places in readers.items() if places - {made[blob]})


@settings(SETTINGS, max_examples=60)
@given(st.data())
def test_placement_is_the_cheapest_of_all(data: st.DataObject) -> None:
    net = without_devices(data.draw(nets(0, most=5)))
    net.external_input.extend(POOL)
    cost = st.none() | st.integers(0, 9)
    table = [data.draw(st.tuples(cost, cost).filter(any_side)) for _ in net.op]
    for index, op in enumerate(net.op):
        op.name = str(index)
    costs = Costs(table, {name: data.draw(st.integers(0, 9)) for name in POOL})
    inputs = dict.fromkeys(POOL[:3], HOST)
    sides = list(itertools.product((False, True), repeat=len(net.op)))

    def cheapest(choices: Iterable[tuple[bool, ...]]) -> float:
        """Return the least cost, of all places of the inputs that may be anywhere."""
        frees = list(itertools.product((False, True), repeat=2))
        entries = [dict(zip(POOL, (False, False, False, *free), strict=True)) for free in frees]
        found = [cost_of(net, dict(enumerate(chosen)), entry, costs) for chosen in choices for entry in entries]
        return min(cost for cost in found if cost is not None)

    best = cheapest(sides)
    placement = place(net, costs, gpu="cuda:1", inputs=inputs)
    assert placement.cost == best
    chosen = {index: device.is_gpu for index, device in enumerate(placement.devices.values())}
    assert best == cheapest([tuple(chosen.values())])
    run(insert_copies(placement.net)[0], start())


def any_side(costs: tuple[int | None, int | None]) -> bool:
    return costs != (None, None)


def test_the_pool_of_operators_has_operands_of_every_side() -> None:
    sides = [operand_sides(OperatorDef(type=kind, input=POOL[:n], output=POOL[:m])) for kind, (n, m) in KINDS.items()]
    assert {side for pair in sides for group in pair for side in group} == {Side.SAME, Side.HOST, Side.FREE}

"""Placements on several GPUs, within the memory of each."""

from __future__ import annotations

import random
from typing import Any

import pytest
from support.nets import net, op

from caffe2_bridge import BridgeError, Device, insert_copies, place
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef


class Costs:
    """Operators take 8 on the host and 1 on a GPU; ``host`` and ``gpu`` are types that run there alone."""

    def __init__(self, sizes: dict[str, float], host: str = "Where", gpu: str = "") -> None:
        self.sizes, self.host, self.gpu = sizes, host, gpu

    def operator(self, op: OperatorDef, device: Device) -> float | None:
        if op.type == (self.host if device.is_gpu else self.gpu):
            return None
        return 1.0 if device.is_gpu else 8.0

    def transfer(self, blob: str) -> float:
        return self.sizes.get(blob, 1.0) / 10

    def memory(self, blob: str) -> float:
        return self.sizes.get(blob, 1.0)


def names(placement: Any) -> list[str]:
    return [str(device) for device in placement.devices.values()]


CHAIN = net(*(op("Relu", f"b{index}", f"b{index + 1}") for index in range(6)), inputs="b0", outputs="b6")
SIZES = {"b0": 10.0, "b1": 10.0, "b2": 5.0, "b3": 1.0, "b4": 10.0, "b5": 10.0, "b6": 10.0}


def test_a_chain_is_divided_where_its_copy_is_cheapest() -> None:
    gpus = {"cuda:1": 45, "cuda:0": 40}
    placement = place(CHAIN, Costs(SIZES), gpu=gpus, inputs={"b0": "cuda:1"}, outputs={"b6": "cuda:0"})
    assert names(placement) == ["cuda:1"] * 3 + ["cuda:0"] * 3
    assert placement.cost == pytest.approx(6 + 0.1)
    options = [each.device_option.device_id for each in placement.net.op]
    assert options == [1, 1, 1, 0, 0, 0]
    copied, _ = insert_copies(placement.net, {"b0": "cuda:1"})
    assert len(copied.op) == 7


def test_operators_of_gpus_without_bounds_stay_together() -> None:
    assert set(names(place(CHAIN, Costs(SIZES), gpu=["cuda:0", "cuda:1"]))) == {"cuda:0"}
    assert set(names(place(CHAIN, Costs(SIZES), gpu={"cuda:1": None, "cuda:0": 10}))) == {"cuda:1"}


def test_what_does_not_fit_moves_to_the_host() -> None:
    placement = place(CHAIN, Costs(SIZES), gpu={"cuda:0": 27})
    assert names(placement).count("cuda:0") == 3  # b1, b2, b3 and b4 are 26
    assert names(placement)[1:4] == ["cuda:0"] * 3
    assert set(names(place(CHAIN, Costs(SIZES), gpu={"cuda:0": 0}))) == {"cpu"}
    with pytest.raises(BridgeError, match=r"need more memory than gpu allows \(cuda:0: 5 bytes\)"):
        place(CHAIN, Costs(SIZES, gpu="Relu"), gpu={"cuda:0": 5})


def test_bodies_of_one_operator_are_on_one_gpu() -> None:
    branch = NetDef(op=[op("Relu", "x", "t"), op("Relu", "t", "y")])
    control = op("If", "c x", "y", then_net=branch, else_net=NetDef(op=[op("Relu", "x", "y")]))
    given = net(op("Relu", "a", "x"), control, op("Relu", "y", "z"), inputs="a c", outputs="z")
    sizes = dict.fromkeys("axtyz", 10.0) | {"c": 0.1}
    placement = place(given, Costs(sizes), gpu={"cuda:0": 45, "cuda:1": 55})
    inside = {str(device) for location, device in placement.devices.items() if location.path}
    assert len(inside) == 1


def test_random_nets_stay_within_bounds_and_cost_what_is_said() -> None:
    draw = random.Random(0)  # noqa: S311 - test data
    for _ in range(60):
        blobs = ["b0", "b1"]
        given = NetDef(external_input=blobs)
        for index in range(2, 14):
            inputs = " ".join(draw.sample(blobs, draw.randrange(1, 3)))
            given.op.append(op(draw.choice(["Relu", "Sum", "Where"]), inputs, f"b{index}"))
            blobs.append(f"b{index}")
        costs = Costs({blob: float(draw.randrange(1, 9)) for blob in blobs})
        gpus = {f"cuda:{index}": draw.randrange(10, 40) for index in range(draw.randrange(1, 4))}
        placement = place(given, costs, gpu=gpus, inputs={"b0": "cpu"})
        where = names(placement)
        homes = {"b0": "cpu"} | {each.output[0]: at for each, at in zip(given.op, where, strict=True)}
        readers: dict[str, set[str]] = {}
        for each, at in zip(given.op, where, strict=True):
            for name in each.input:
                readers.setdefault(name, set()).add(at)
        for gpu, limit in gpus.items():
            ops = [each for each, at in zip(given.op, where, strict=True) if at == gpu]
            assert sum(map(costs.memory, {name for each in ops for name in (*each.input, *each.output)})) <= limit
        cost = sum(
            costs.operator(each, Device(at.split(":")[0])) or 0 for each, at in zip(given.op, where, strict=True)
        )
        for name, places in readers.items():
            home = homes.get(name)
            cost += costs.transfer(name) * (len(places - {home}) if home else len(places) - 1)
        assert placement.cost == pytest.approx(cost)
        assert cost <= 8 * len(given.op)  # all on the host


@pytest.mark.parametrize(
    ("gpu", "reason"),
    [
        ({"cpu": 3}, "must be a CUDA device, not cpu"),
        ({"cuda:0": -1}, "bytes of cuda:0 as a number"),
        ({"cuda:0": "8G"}, "bytes of cuda:0 as a number"),
        ([], "at least one"),
        (["cuda:0", "cuda:1"], "cuda:2 is neither the host nor cuda:0, cuda:1"),
    ],
)
def test_gpus_that_are_not_devices_are_refused(gpu: Any, reason: str) -> None:
    with pytest.raises(BridgeError, match=reason):
        place(CHAIN, Costs(SIZES), gpu=gpu, inputs={"b0": "cuda:2"})


def test_bounds_need_a_cost_model_that_knows_sizes() -> None:
    class Plain:
        def operator(self, _: OperatorDef, device: Device) -> float:
            return 1.0 if device.is_gpu else 8.0

        def transfer(self, _: str) -> float:
            return 1.0

    with pytest.raises(BridgeError, match=r"must have a method memory\(blob\)"):
        place(CHAIN, Plain(), gpu={"cuda:0": 10})
    assert set(names(place(CHAIN, Plain(), gpu=["cuda:0", "cuda:1"]))) == {"cuda:0"}

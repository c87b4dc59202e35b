"""Minimum cuts against networkx, and placements of nets of 100,000 operators."""

from __future__ import annotations

import random
import time
from typing import ClassVar

import networkx as nx
import pytest
from support.nets import op

from caffe2_bridge.devices import Device, place
from caffe2_bridge.devices.placement.min_cut import MinCut
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef


@pytest.mark.parametrize("seed", range(150))
def test_a_cut_is_as_cheap_as_that_of_networkx(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - test data
    count = draw.randrange(2, 14)
    cut = MinCut(count - 1)
    assert cut.add_node() == count - 1
    graph = nx.DiGraph()
    graph.add_nodes_from([*range(count), "source", "sink"])

    def add(start: object, end: object, capacity: float) -> None:
        known = graph.get_edge_data(start, end, {"capacity": 0})["capacity"]
        graph.add_edge(start, end, capacity=known + capacity)

    for node in range(count):
        source, sink = (draw.choice([0, 0, draw.randrange(9)]) for _ in range(2))
        cut.terminals(node, source, sink)
        add("source", node, source)
        add(node, "sink", sink)
    for _ in range(draw.randrange(3 * count)):
        one, other = draw.sample(range(count), 2)
        forth, back = draw.choice([0, draw.randrange(7), 1e6]), draw.choice([0, draw.randrange(7)])
        cut.edge(one, other, forth, back)
        add(one, other, forth)
        add(other, one, back)
    expected, _ = nx.minimum_cut(graph, "source", "sink")
    cost, side = cut.solve()
    near = {"source", *(node for node in range(count) if side[node])}
    assert cost == expected
    assert expected == sum(data["capacity"] for a, b, data in graph.edges(data=True) if a in near and b not in near)


class Costs:
    times: ClassVar = {"Relu": 1.0, "FC": 10.0, "Sum": 2.0, "Where": 3.0, "Conv": 20.0}

    def operator(self, op: OperatorDef, device: Device) -> float | None:
        if device.is_gpu and op.type == "Where":
            return None
        return self.times[op.type] / (5 if device.is_gpu else 1)

    def transfer(self, _: str) -> float:
        return 4.0


def large(count: int) -> NetDef:
    draw = random.Random(0)  # noqa: S311 - test data
    names = [f"in{index}" for index in range(20)]
    net = NetDef(external_input=names)
    for index in range(count):
        inputs = " ".join(draw.choice(names[-30:]) for _ in range(draw.randrange(1, 3)))
        net.op.append(op(draw.choice(sorted(Costs.times)), inputs, f"b{index}"))
        names.append(f"b{index}")
    return net


@pytest.mark.slow
def test_a_net_of_100_000_operators_is_placed_in_seconds() -> None:
    net = large(100_000)
    before = time.process_time()
    placement = place(net, Costs(), inputs=dict.fromkeys(net.external_input, "cpu"))
    assert time.process_time() - before < 15  # 3 on a machine of its own
    assert len(placement.devices) == 100_000

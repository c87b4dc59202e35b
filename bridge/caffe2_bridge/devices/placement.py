"""The cheapest placement of operators that may run on the host or on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from google.protobuf.message import Message

from caffe2_bridge.control import parsed_bodies
from caffe2_bridge.devices.device import HOST, Device, as_device
from caffe2_bridge.devices.flow import Flow, Step, build_flow
from caffe2_bridge.devices.infer import write_option
from caffe2_bridge.devices.operand_sides import Side
from caffe2_bridge.diagnostics import BridgeError, ConversionError, Diagnostic, Location
from caffe2_bridge.netdef.views import as_net_def
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

_PREDICT: Final = Location("predict")
_HOST: Final = "host"
_GPU: Final = "gpu"
Graph = Any  # networkx ships no types


class CostModel(Protocol):
    """The costs of running operators and copying blobs, in one unit of any kind; costs must not be negative."""

    def operator(self, op: OperatorDef, device: Device, /) -> float | None:
        """The cost of an operator on a device; None where it cannot run there."""

    def transfer(self, blob: str, /) -> float:
        """The cost of copying a blob to the other side, once, however many operators read it there."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A placement: ``net`` has the device options of operators, ``cost`` is its cost in the cost model.

    ``devices`` holds every operator's device by its place, in net order, those of bodies included. Copies are not in
    the net yet: :func:`insert_copies` puts them in.
    """

    net: NetDef
    devices: Mapping[Location, Device]
    cost: float


def place(
    net: Message | bytes,
    cost_model: CostModel,
    *,
    gpu: Any = "cuda:0",
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
) -> Placement:
    """Find a placement of the operators on the host and one GPU with minimum cost.

    It is a minimum cut: each operator is on one side, a value that is read on the side where it was not made costs one
    transfer. Operands that are always on the host, operators that only run bodies, and copies between devices are on a
    fixed side; what branches or iterations leave is on one device.

    Args:
        net: the net. Its own device options do not matter.
        cost_model: the costs.
        gpu: the GPU.
        inputs: where external inputs are; those left out, such as parameters, are where it is cheapest.
        outputs: where external outputs must be; those left out may be anywhere.

    Returns:
        The placement. Raises ConversionError where an operator can run on neither side, or must run on both.
    """
    device = as_device(gpu)
    if not device.is_gpu:
        raise BridgeError(f"gpu must be a CUDA device, not {device}")
    result = NetDef()
    result.CopyFrom(as_net_def(net))
    with parsed_bodies(result):
        flow = build_flow(result, _PREDICT)
        cost, on_host = _Cut(flow, cost_model, device).solve(inputs or {}, outputs or {})
        devices = {}
        for number, step in enumerate(flow.steps):
            if step.proto is not None:
                at = HOST if step.is_dispatch or ("step", number) in on_host else device
                devices[step.location] = at
                write_option(step.proto, at, result.device_option)
    return Placement(result, devices, cost)


class _Cut:
    """The graph whose minimum cut is the placement: the source is the host's side, the sink the GPU's."""

    def __init__(self, flow: Flow, model: CostModel, gpu: Device) -> None:
        import networkx as nx

        self._nx = nx
        self._flow = flow
        self._model = model
        self._gpu = gpu
        self._graph: Graph = nx.DiGraph()
        self._graph.add_nodes_from((_HOST, _GPU))
        self._maker: dict[int, object] = {}
        self._readers: dict[int, set[object]] = {}

    def solve(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> tuple[float, set[object]]:
        """The minimum cost, and the nodes on the host's side."""
        found = [self._add(number, step) for number, step in enumerate(self._flow.steps)]
        findings = [finding for finding in found if finding is not None]
        if findings:
            raise ConversionError(findings)
        self._ends(inputs, outputs)
        for step in self._flow.steps:
            if step.proto is None:  # what is joined is in one place
                first, *others = map(self._home, step.inputs)
                for other in others:
                    self._edge(first, other, None)
                    self._edge(other, first, None)
        for value, readers in self._readers.items():
            self._transfer(value, readers - {self._home(value)})
        self._require_two_sides()
        cost, (on_host, _) = self._nx.minimum_cut(
            self._graph, _HOST, _GPU, flow_func=self._nx.algorithms.flow.preflow_push
        )
        return cost, on_host

    def _ends(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        for name, where in inputs.items():
            self._maker[self._known(self._flow.versioned.get((name, 0)), name)] = self._side(where)
        for name, where in outputs.items():
            value = self._known(self._flow.last.get(name), name)
            self._readers.setdefault(value, set()).add(self._side(where))

    def _side(self, where: Any) -> str:
        device = as_device(where)
        if device.is_gpu and device != self._gpu:
            raise BridgeError(f"{device} is neither the host nor {self._gpu}, the one GPU of this placement")
        return _GPU if device.is_gpu else _HOST

    def _known(self, value: int | None, name: str) -> int:
        if value is None:
            raise BridgeError(f"the net has no blob {name!r}")
        return value

    def _home(self, value: int) -> object:
        """The node on whose side a value is made: that of an operator, or one of its own."""
        return self._maker.get(value, ("value", value))

    def _transfer(self, value: int, readers: set[object]) -> None:
        if not readers:
            return
        cost = self._cost(self._model.transfer(self._flow.names[value]))
        home = self._home(value)
        out = back = next(iter(readers))
        if len(readers) > 1:  # paid once, however many read it
            out, back = ("to the GPU", value), ("to the host", value)
            for reader in readers:
                self._edge(out, reader, None)
                self._edge(reader, back, None)
        self._edge(home, out, cost)
        self._edge(back, home, cost)

    def _cost(self, cost: float) -> float:
        if not cost >= 0:
            raise BridgeError(f"the cost model returned {cost}, but a cost must not be negative")
        return cost

    def _require_two_sides(self) -> None:
        """Raise if a path that cannot be cut leads from one side to the other."""
        held: Graph = self._nx.DiGraph()
        held.add_nodes_from((_HOST, _GPU))
        held.add_edges_from((start, end) for start, end, data in self._graph.edges(data=True) if "capacity" not in data)
        if not self._nx.has_path(held, _HOST, _GPU):
            return
        numbers = [node[1] for node in self._nx.shortest_path(held, _HOST, _GPU) if node[0] == "step"]
        places = [self._flow.steps[number].location for number in numbers] or [_PREDICT]
        both = " and ".join(dict.fromkeys(map(str, (places[0], places[-1]))))
        reason = f"a blob that {both} passes through a body must be on the host and on {self._gpu} at once"
        raise ConversionError([Diagnostic("device-conflict", reason, places[0])])

    def _add(self, number: int, step: Step) -> Diagnostic | None:
        node: object = ("step", number)
        if step.proto is None:
            for value, side in zip(step.inputs, step.sides[0], strict=True):
                if side is Side.HOST:
                    self._readers.setdefault(value, set()).add(_HOST)
            return None
        if step.is_dispatch:
            node = _HOST
        else:
            costs = [self._model.operator(step.proto, device) for device in (HOST, self._gpu)]
            if costs == [None, None]:
                return Diagnostic(
                    "no-device",
                    "the cost model allows this operator on no device",
                    step.location,
                    hint="return a cost for the host or for the GPU",
                )
            on_host, on_gpu = costs
            # Cut where the operator is on the other side; where it cannot run there, never.
            self._edge(_HOST, node, None if on_gpu is None else self._cost(on_gpu))
            self._edge(node, _GPU, None if on_host is None else self._cost(on_host))
        at = {Side.SAME: node, Side.HOST: _HOST, Side.GPU: _GPU}
        for value, side in zip(step.inputs, step.sides[0], strict=True):
            if side in at:
                self._readers.setdefault(value, set()).add(at[side])
        for value, side in zip(step.outputs, step.sides[1], strict=True):
            if side in at:
                self._maker.setdefault(value, at[side])
        return None

    def _edge(self, start: object, end: object, cost: float | None) -> None:
        """An edge; without a cost it cannot be cut."""
        known = self._graph.get_edge_data(start, end)
        if cost is None:
            if known is None:
                self._graph.add_edge(start, end)
            else:
                known.pop("capacity", None)
        elif known is None:
            self._graph.add_edge(start, end, capacity=cost)
        elif "capacity" in known:
            known["capacity"] += cost

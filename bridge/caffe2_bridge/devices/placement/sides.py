"""The host's side and the GPUs' side of a net: the minimum cut of a graph of its operators and values."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from caffe2_bridge.devices.device import HOST, Device
from caffe2_bridge.devices.flow import Flow, FlowStep
from caffe2_bridge.devices.operand_sides import Side
from caffe2_bridge.devices.placement.min_cut import MinCut
from caffe2_bridge.diagnostics import BridgeError, ConversionError, Diagnostic, Location
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef

HOST_SIDE: Final = -1
GPU_SIDE: Final = -2
_UNCUT: Final = -1.0  # the capacity of an edge that must not be cut

OperatorCost = Callable[[OperatorDef, Device], float | None]
BlobCost = Callable[[str], float]


class Sides:
    """The graph: nodes are the steps of a flow, by number, and values; the terminals are the two sides.

    Args:
        flow: the values of the net.
        gpu: a GPU, for which the costs are asked.
        operator: the cost of an operator on a device, None where it cannot run there.
        transfer: the cost of copying a blob to the other side.
    """

    def __init__(self, flow: Flow, gpu: Device, operator: OperatorCost, transfer: BlobCost) -> None:
        self._flow = flow
        self._gpu = gpu
        self._operator = operator
        self._transfer = transfer
        self._nodes = len(flow.steps)
        self._edges: list[tuple[int, int, float, float]] = []
        self.makers: dict[int, int] = {}
        self.readers: dict[int, set[int]] = {}
        self._values: dict[int, int] = {}

    def pin_input(self, value: int, side: int) -> None:
        """Make an input on a side."""
        self.makers[value] = side

    def pin_output(self, value: int, side: int) -> None:
        """Read a value on a side at the end."""
        self.readers.setdefault(value, set()).add(side)

    def add_steps(self) -> None:
        """Add all operators. Raises ConversionError where one can run on neither side."""
        found = [self._add(number, step) for number, step in enumerate(self._flow.steps)]
        findings = [finding for finding in found if finding is not None]
        if findings:
            raise ConversionError(findings)

    def solve(self) -> tuple[float, list[bool]]:
        """Return the minimum cost, and by number whether each step is on the host.

        Raises ConversionError where what must be on one device must be on both sides.
        """
        for step in self._flow.steps:
            if step.proto is None and step.inputs:  # what is joined is in one place
                first, *others = map(self.home, step.inputs)
                self._edges += [(first, other, _UNCUT, _UNCUT) for other in others if other != first]
        for value, readers in self.readers.items():
            self._add_transfer(value, readers - {self.home(value)})
        # More than any cut that leaves the edges whole that must not be cut.
        whole = 1.0 + 2 * sum(max(forth, 0.0) + max(back, 0.0) for _, _, forth, back in self._edges)
        cut = MinCut(self._nodes)
        fixed = 0.0
        for one, other, *capacities in self._edges:
            forth, back = (whole if capacity < 0 else capacity for capacity in capacities)
            if one < 0 and other < 0:
                fixed += (forth if one == HOST_SIDE else back) if one != other else 0.0
            elif one < 0:
                cut.terminals(other, *((forth, 0.0) if one == HOST_SIDE else (0.0, back)))
            elif other < 0:
                cut.terminals(one, *((back, 0.0) if other == HOST_SIDE else (0.0, forth)))
            else:
                cut.edge(one, other, forth, back)
        cost, on_host = cut.solve()
        if cost + fixed >= whole:
            raise self._conflict()
        return cost + fixed, on_host[: len(self._flow.steps)]

    def home(self, value: int) -> int:
        """Return the node on whose side a value is made: that of an operator, or one of its own."""
        maker = self.makers.get(value)
        if maker is None:
            maker = self._values.get(value)
        if maker is None:
            maker = self._values[value] = self._node()
        return maker

    def _node(self) -> int:
        self._nodes += 1
        return self._nodes - 1

    def _add_transfer(self, value: int, readers: set[int]) -> None:
        if not readers:
            return
        cost = checked_cost(self._transfer(self._flow.names[value]))
        home = self.home(value)
        if len(readers) == 1:
            self._edges.append((home, min(readers), cost, cost))
            return
        out, back = self._node(), self._node()  # paid once, however many read it
        for reader in readers:
            self._edges.append((out, reader, _UNCUT, 0.0))
            self._edges.append((reader, back, _UNCUT, 0.0))
        self._edges.append((home, out, cost, 0.0))
        self._edges.append((back, home, cost, 0.0))

    def _add(self, number: int, step: FlowStep) -> Diagnostic | None:
        node = number
        if step.proto is None:
            for value, side in zip(step.inputs, step.sides[0], strict=True):
                if side is Side.HOST:
                    self.readers.setdefault(value, set()).add(HOST_SIDE)
            return None
        if step.is_dispatch:
            node = HOST_SIDE
        else:
            on_host, on_gpu = (self._operator(step.proto, device) for device in (HOST, self._gpu))
            if on_host is None and on_gpu is None:
                return Diagnostic(
                    "no-device",
                    "the cost model allows this operator on no device",
                    step.location,
                    hint="return a cost for the host or for the GPU",
                )
            # Cut where the operator is on the other side; where it cannot run there, never.
            self._edges.append((HOST_SIDE, node, _UNCUT if on_gpu is None else checked_cost(on_gpu), 0.0))
            self._edges.append((node, GPU_SIDE, _UNCUT if on_host is None else checked_cost(on_host), 0.0))
        at = {Side.SAME: node, Side.HOST: HOST_SIDE, Side.GPU: GPU_SIDE}
        for value, side in zip(step.inputs, step.sides[0], strict=True):
            if side in at:
                self.readers.setdefault(value, set()).add(at[side])
        for value, side in zip(step.outputs, step.sides[1], strict=True):
            if side in at:
                self.makers.setdefault(value, at[side])
        return None

    def _conflict(self) -> ConversionError:
        """Return the error that names the ends of a path that cannot be cut, from the host's side to the GPUs'."""
        after: dict[int, list[int]] = {}
        for one, other, forth, back in self._edges:
            for start, end, capacity in ((one, other, forth), (other, one, back)):
                if capacity < 0:
                    after.setdefault(start, []).append(end)
        came: dict[int, int | None] = {HOST_SIDE: None}
        waiting = deque([HOST_SIDE])
        while waiting and GPU_SIDE not in came:
            node = waiting.popleft()
            for other in after.get(node, ()):
                if other not in came:
                    came[other] = node
                    waiting.append(other)
        path: list[int] = []
        step: int | None = GPU_SIDE
        while step is not None:
            path.append(step)
            step = came.get(step)
        steps = self._flow.steps
        places = [steps[node].location for node in reversed(path) if 0 <= node < len(steps)] or [Location("predict")]
        both = " and ".join(dict.fromkeys(map(str, (places[0], places[-1]))))
        reason = f"a blob that {both} passes through a body must be on the host and on {self._gpu} at once"
        return ConversionError([Diagnostic("device-conflict", reason, places[0])])


def checked_cost(cost: float) -> float:
    """Return a cost. Raises BridgeError if it is negative or not a number."""
    if not cost >= 0:
        raise BridgeError(f"the cost model returned {cost}, but a cost must not be negative")
    return cost

"""Choose a device for each operator: the host's side by a minimum cut, then a GPU for each of the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from caffe2_bridge.devices.device import HOST, Device
from caffe2_bridge.devices.flow import Flow
from caffe2_bridge.devices.operand_sides import Side
from caffe2_bridge.devices.placement.sides import GPU_SIDE, HOST_SIDE, OperatorCost, Sides, checked_cost
from caffe2_bridge.devices.placement.spread import spread
from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef

_BISECTIONS: Final = 12


class CostModel(Protocol):
    """The costs of running operators and copying blobs, in one unit of any kind; costs must not be negative."""

    def operator(self, op: OperatorDef, device: Device, /) -> float | None:
        """Return the cost of an operator on a device; None where it cannot run there."""

    def transfer(self, blob: str, /) -> float:
        """Return the cost of copying a blob to another device, once, however many operators read it there."""


@dataclass(frozen=True, slots=True)
class Pins:
    """Where values of inputs are, and where values of outputs must be."""

    inputs: Mapping[int, Device]
    outputs: Mapping[int, Device]


def choose_devices(
    flow: Flow, model: CostModel, gpus: Mapping[Device, float], pins: Pins
) -> tuple[list[Device], float]:
    """Return the device of each step, and the cost; ``gpus`` maps to bytes."""
    assignment = _Assignment(flow, model, gpus, pins)
    # Two sides without bounds: a minimum cut is optimal. Bounds or more GPUs make it NP-hard, and the rest a heuristic.
    if len(gpus) == 1 and min(gpus.values()) == math.inf:
        cost, on_host = assignment.sides(model.operator)
        return [HOST if here else assignment.first for here in on_host], cost
    devices = assignment.within_memory()
    return devices, assignment.cost(devices)


class _Assignment:
    def __init__(self, flow: Flow, model: CostModel, gpus: Mapping[Device, float], pins: Pins) -> None:
        self._flow = flow
        self._model = model
        self._gpus = gpus
        self._pins = pins
        self.first = next(iter(gpus))
        self._memory = _memory_of(model, bounded=min(gpus.values()) < math.inf)

    def sides(self, operator: OperatorCost) -> tuple[float, list[bool]]:
        """Return the minimum cut: its cost, and whether each step is on the host."""
        sides = Sides(self._flow, self.first, operator, self._model.transfer)
        sides.add_steps()
        for value, device in self._pins.inputs.items():
            sides.pin_input(value, GPU_SIDE if device.is_gpu else HOST_SIDE)
        for value, device in self._pins.outputs.items():
            sides.pin_output(value, GPU_SIDE if device.is_gpu else HOST_SIDE)
        cost, on_host = sides.solve()
        return cost, [here or step.is_dispatch for here, step in zip(on_host, self._flow.steps, strict=True)]

    def within_memory(self) -> list[Device]:
        """Return devices within the bounds: at the lowest price of a byte on a GPU at which all fits."""
        found = self._at_price(0.0)
        if found is not None:
            return found
        high = self._highest_price()
        found = self._at_price(high)
        if found is None:
            bounds = ", ".join(f"{gpu}: {limit:g} bytes" for gpu, limit in self._gpus.items())
            raise BridgeError(f"operators that can run on GPUs alone need more memory than gpu allows ({bounds})")
        # A price on memory (a Lagrange multiplier) turns the bound into costs: the higher it is, the less the cut puts
        # on GPUs. Prices span many orders of magnitude, so that the bisection is of their logarithms.
        low = high * 1e-9
        for _ in range(_BISECTIONS):
            price = math.sqrt(low * high)
            fits = self._at_price(price)
            if fits is None:
                low = price
            else:
                found, high = fits, price
        return found

    def _at_price(self, price: float) -> list[Device] | None:
        """Return devices where each byte that an operator on a GPU uses costs a price; None if they do not fit."""

        def operator(op: OperatorDef, device: Device) -> float | None:
            cost = self._model.operator(op, device)
            if cost is None or not device.is_gpu or not price:
                return cost
            return cost + price * self._bytes_of(op)

        _, on_host = self.sides(operator)
        chosen = [
            number
            for number, step in enumerate(self._flow.steps)
            if not on_host[number] and step.proto is not None and not step.is_dispatch
        ]
        names, gpus = self._flow.names, list(self._gpus)
        parts = spread(
            self._flow,
            chosen,
            list(self._gpus.values()),
            lambda value: self._memory(names[value]),
            lambda value: self._model.transfer(names[value]),
        )
        if parts is None:
            return None
        devices = [HOST] * len(self._flow.steps)
        for number, part in zip(chosen, parts, strict=True):
            devices[number] = gpus[part]
        return devices

    def _bytes_of(self, op: OperatorDef) -> float:
        return sum(self._memory(name) for name in {*op.input, *op.output})

    def _highest_price(self) -> float:
        """Return a price at which an operator that uses memory is on the host if it can be."""
        steps = [step.proto for step in self._flow.steps if step.proto is not None and not step.is_dispatch]
        costs = [self._model.operator(op, HOST) for op in steps]
        total = sum(cost for cost in costs if cost is not None)
        total += sum(map(self._model.transfer, self._flow.names))
        least = min((size for op in steps if (size := self._bytes_of(op)) > 0), default=1.0)
        # At this price any operator with memory costs more on a GPU than everything else together.
        return (1.0 + total) / least

    def cost(self, devices: Sequence[Device]) -> float:
        """Return the cost of devices: of operators, and of a copy of a value for each further device that reads it."""
        total = 0.0
        makers: dict[int, Device] = dict(self._pins.inputs)
        readers: dict[int, dict[Device, None]] = {value: {at: None} for value, at in self._pins.outputs.items()}
        for step, device in zip(self._flow.steps, devices, strict=True):
            if step.proto is not None and not step.is_dispatch:
                total += checked_cost(self._model.operator(step.proto, device) or 0.0)
            at = {Side.SAME: device, Side.HOST: HOST, Side.GPU: device if device.is_gpu else self.first}
            if step.is_dispatch:
                at[Side.SAME] = HOST
            for value, side in zip(step.inputs, step.sides[0], strict=True):
                if side is Side.HOST or (side in at and step.proto is not None):
                    readers.setdefault(value, {})[at[side]] = None
            for value, side in zip(step.outputs, step.sides[1], strict=True):
                if side in at:
                    makers.setdefault(value, at[side])
        for value, places in readers.items():
            # A value that nothing makes, such as an unpinned input, is where its first reader is.
            home = makers.get(value, next(iter(places)))
            others = sum(place != home for place in places)
            total += others * checked_cost(self._model.transfer(self._flow.names[value])) if others else 0.0
        return total


def _memory_of(model: CostModel, *, bounded: bool) -> Callable[[str], float]:
    """Return the bytes of a blob by name. Raises BridgeError where they are needed and the model does not know them."""
    memory: Callable[[str], float] | None = getattr(model, "memory", None)
    if memory is None:
        if bounded:
            raise BridgeError("gpu bounds the memory of GPUs, so the cost model must have a method memory(blob)")
        return lambda _: 0.0
    return memory

"""Copies of values on other devices."""

from __future__ import annotations

from caffe2_bridge.devices.copies.residence import Cell, Residence
from caffe2_bridge.devices.device import HOST, Device
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef


def copy_operator(source: str, target: str, origin: Device, to: Device, inherited: Device = HOST) -> OperatorDef:
    """Make the operator that copies a blob from one device to another, or on one device.

    ``inherited`` is the device of operators without a device option.
    """
    kind, at = "Copy", to
    if origin.is_gpu and not to.is_gpu:
        kind, at = "CopyGPUToCPU", origin
    elif to.is_gpu and not origin.is_gpu:
        kind = "CopyCPUToGPU"
    op = OperatorDef(type=kind, input=[source], output=[target])
    if at.is_gpu or inherited.is_gpu:
        op.device_option.CopyFrom(at.option())
    return op


class Copies:
    """Emits copies into the residences of nets, each under a name that no blob has.

    ``used`` are the names of all blobs, ``default`` the device of operators without a device option.
    """

    def __init__(self, used: set[str], default: Device) -> None:
        self._used = used
        self._default = default

    def names(self) -> frozenset[str]:
        """Return the names that blobs have so far."""
        return frozenset(self._used)

    def forget_all_but(self, names: frozenset[str]) -> None:
        """Make the names of later copies free again."""
        self._used = set(names)

    def bring(self, cell: Cell, to: Device, here: Residence) -> str:
        """Return the name under which a value is on another device; copy it there if necessary."""
        known = here.copy_of(cell, to)
        if known is not None:
            return known
        assert cell.device is not None
        name = self._new_name(cell.name, to)
        scope = here.home_of(cell)
        scope.ops.append(copy_operator(cell.name, name, cell.device, to, self._default))
        scope.copies[cell, to] = name
        return here.copy_of(cell, to) or name

    def _new_name(self, name: str, to: Device) -> str:
        wanted = base = f"{name}_gpu_{to.index}" if to.is_gpu else f"{name}_cpu"
        number = 0
        while wanted in self._used:
            number += 1
            wanted = f"{base}_{number}"
        self._used.add(wanted)
        return wanted

    def move(self, name: str, to: Device, here: Residence) -> None:
        """Copy a value to another device under the same name."""
        cell = here.find(name)
        if cell.device is None or cell.device == to:
            return
        copied = here.copy_of(cell, to)
        if copied is None:
            copied = self._new_name(name, to)
            here.ops.append(copy_operator(name, copied, cell.device, to, self._default))
        here.ops.append(copy_operator(copied, name, to, to, self._default))
        here.cells[name] = Cell(name, to)

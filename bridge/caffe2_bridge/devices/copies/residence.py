"""The devices of the blobs of a workspace at a point of a net, and their copies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from caffe2_bridge.devices.device import Device
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef


@dataclass(slots=True, eq=False)
class Cell:
    """A value of a blob; ``device`` is None if it is not a tensor, or was not read or written yet."""

    name: str
    device: Device | None


class Residence:
    """The values of names in a net or body, their copies there, and the operators emitted so far."""

    def __init__(self, at_entry: Callable[[str], Cell], parent: Residence | None = None, *, loop: bool = False) -> None:
        self._at_entry = at_entry
        self._parent = parent
        self._loop = loop
        self.cells: dict[str, Cell] = {}
        self.copies: dict[tuple[Cell, Device], str] = {}
        self.ops: list[OperatorDef] = []
        self.hoisted: list[str] = []

    def inner(self, *, loop: bool = False) -> Residence:
        """Return the residence of a body that sees these blobs; the operator decides which writes are seen outside."""
        return Residence(self._at_entry, self, loop=loop)

    def get(self, name: str) -> Cell | None:
        """Return the value of a name, None if it is unknown."""
        found = self.cells.get(name)
        if found is None and self._parent is not None:
            return self._parent.get(name)
        return found

    def find(self, name: str) -> Cell:
        """Return the value of a name; an unknown one existed at entry."""
        found = self.get(name)
        if found is None:
            root = self
            while root._parent is not None:
                root = root._parent
            found = root.cells[name] = self._at_entry(name)
        return found

    def copy_of(self, cell: Cell, device: Device) -> str | None:
        """Return the name of the copy of a value on a device, None if no copy is visible here."""
        name = self.copies.get((cell, device))
        if name is None and self._parent is not None:
            name = self._parent.copy_of(cell, device)
            if name is not None and self._loop:
                self.hoisted.append(name)
        return name

    def home_of(self, cell: Cell) -> Residence:
        """Return where to copy a value for use here: before the outermost loop that only reads it."""
        scope = target = self
        while scope._parent is not None and scope.cells.get(cell.name) is not cell:
            if scope._loop:
                target = scope._parent
            scope = scope._parent
        return target

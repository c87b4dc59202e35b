"""Where the blobs of a workspace are while a net is gone through, and which copies of them there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from caffe2_bridge.devices.device import Device
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef


@dataclass(slots=True, eq=False)
class Cell:
    """A value under the name of its blob; ``device`` is None where it is no tensor, or nobody read or wrote it yet."""

    name: str
    device: Device | None


class Residence:
    """The values that names have in a net or body, the copies made of them there, and the operators put in so far."""

    def __init__(self, at_entry: Callable[[str], Cell], parent: Residence | None = None, *, loop: bool = False) -> None:
        self._at_entry = at_entry
        self._parent = parent
        self._loop = loop
        self.cells: dict[str, Cell] = {}
        self.copies: dict[tuple[Cell, Device], str] = {}
        self.ops: list[OperatorDef] = []
        self.hoisted: list[str] = []

    def inner(self, *, loop: bool = False) -> Residence:
        """A body that sees this one's blobs. What it writes stays its own until the operator says otherwise."""
        return Residence(self._at_entry, self, loop=loop)

    def get(self, name: str) -> Cell | None:
        """The value of a name, if something made it."""
        found = self.cells.get(name)
        if found is None and self._parent is not None:
            return self._parent.get(name)
        return found

    def find(self, name: str) -> Cell:
        """The value of a name; one that nothing made was there at entry."""
        found = self.get(name)
        if found is None:
            root = self
            while root._parent is not None:
                root = root._parent
            found = root.cells[name] = self._at_entry(name)
        return found

    def copy_of(self, cell: Cell, device: Device) -> str | None:
        """The name of the copy of a value on a device, if there is one that can be seen here."""
        name = self.copies.get((cell, device))
        if name is None and self._parent is not None:
            name = self._parent.copy_of(cell, device)
            if name is not None and self._loop:
                self.hoisted.append(name)
        return name

    def home_of(self, cell: Cell) -> Residence:
        """Where to copy a value for use here: in front of the outermost loop that only reads it."""
        scope = target = self
        while scope._parent is not None and scope.cells.get(cell.name) is not cell:
            if scope._loop:
                target = scope._parent
            scope = scope._parent
        return target

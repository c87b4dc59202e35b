"""Where the operators of a net that is a part of another one come from."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from caffe2_bridge.diagnostics import Diagnostic, Location, RunError
from caffe2_bridge.netdef.views import OpView


@dataclass(frozen=True)
class Origin:
    """The net that a part belongs to: its location, and the indices there of the part's operators.

    ``indices`` is None for a net that is not a part.
    """

    net: Location
    indices: Sequence[int] | None = None

    def index(self, index: int) -> int:
        """Return the index, in the net, of an operator of the part."""
        return index if self.indices is None or not 0 <= index < len(self.indices) else self.indices[index]

    def location(self, op: OpView) -> Location:
        """Return the location of an operator of the part."""
        return Location(self.net.net, self.index(op.index), op.type, op.name, self.net.path)

    def failure(self, op: OpView, reason: str) -> RunError:
        """Return the error of an operator of the part."""
        location = self.location(op)
        error = RunError(f"{location}: {reason} (inputs: {', '.join(op.inputs)})")
        error.operator = location.index
        return error

    def relocated(self, finding: Diagnostic, part: str, added: int) -> Diagnostic:
        """Return a diagnostic of the net named ``part`` as one of this net; ``added`` operators precede its own."""
        first, *inner = (*finding.location.path, finding.location)
        if first.net != part:  # of the init net
            return finding
        index = None if first.index is None else self.index(first.index - added)
        outer = dataclasses.replace(first, net=self.net.net, index=index, path=())
        locations = (*self.net.path, outer, *inner)
        return dataclasses.replace(finding, location=dataclasses.replace(locations[-1], path=locations[:-1]))

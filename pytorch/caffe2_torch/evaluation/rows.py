"""The workspace of a step of a RecurrentNetwork: some of its blobs are views of rows of outer blobs."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass

import torch

from caffe2_bridge.control import RecurrentSpec
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value


@dataclass
class Rows:
    """The rows of an outer blob, each of one shape; None for one that was not written yet."""

    shape: tuple[int, ...]
    values: list[torch.Tensor | None]
    is_changed: bool = False

    def window(self, op: Op, name: str, start: int, count: int) -> torch.Tensor:
        """Return the rows from ``start`` on, [count, ...]."""
        found = [value for value in self.values[max(start, 0) : max(start + count, 0)] if value is not None]
        if start < 0 or len(found) < count:
            op.refuse(f"rows {start} to {start + count - 1} of {name!r} are read before they are written")
        return torch.stack(found)

    def write(self, op: Op, name: str, start: int, count: int, value: torch.Tensor) -> None:
        """Replace rows from ``start`` on."""
        if start < 0 or start + count > len(self.values):
            op.refuse(f"the step net writes row {start} of {name!r}, which has {len(self.values)}")
        self.values[start : start + count] = value.reshape(count, *self.shape).unbind(0)
        self.is_changed = True

    def stacked(self, op: Op, name: str, like: torch.Tensor) -> torch.Tensor:
        """Return all rows as one tensor."""
        found = [value for value in self.values if value is not None]
        if len(found) < len(self.values):
            op.refuse(f"the step net does not write all rows of {name!r}")
        return torch.stack(found) if found else like.new_empty((0, *self.shape))


class StepBlobs(MutableMapping[str, Value]):
    """The blobs of a step: views of rows by the links, the step's own, and those around the operator, read alone."""

    def __init__(self, op: Op, spec: RecurrentSpec, rows: dict[str, Rows]) -> None:
        self.rows = dict(rows)
        self._op = op
        self._links = {link.internal: link for link in spec.links}
        self._timestep = spec.timestep
        self._step = 0
        self._own: dict[str, Value] = {}
        written = spec.written
        for link in spec.links:
            if link.external not in self.rows and link.internal in written:
                outer = op.blobs[link.external]
                assert isinstance(outer, torch.Tensor)
                self.rows[link.external] = Rows(tuple(outer.shape[1:]), list(outer.unbind(0)))

    def begin(self, step: int, device: torch.device) -> None:
        """Forget what the last step left."""
        self._step = step
        self._own = {self._timestep: torch.tensor([step], dtype=torch.int32, device=device)}

    def __getitem__(self, name: str) -> Value:
        link = self._links.get(name)
        if link is None:
            return self._own[name] if name in self._own else self._op.blobs[name]
        start = self._step + link.offset
        if link.external in self.rows:
            return self.rows[link.external].window(self._op, link.external, start, link.window)
        outer = self._op.blobs[link.external]
        if not isinstance(outer, torch.Tensor) or start < 0 or start + link.window > outer.shape[0]:
            self._op.refuse(f"{link.external!r} has no rows {start} to {start + link.window - 1}")
        return outer[start : start + link.window]

    def __setitem__(self, name: str, value: Value) -> None:
        link = self._links.get(name)
        if link is None:
            self._own[name] = value
            return
        assert isinstance(value, torch.Tensor)
        rows = self.rows[link.external]
        rows.write(self._op, link.external, self._step + link.offset, link.window, value)

    def __delitem__(self, name: str) -> None:
        del self._own[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**dict.fromkeys(self._op.blobs), **self._own, **dict.fromkeys(self._links)})

    def __len__(self) -> int:
        return len(list(iter(self)))

"""Programs whose net begins with lookups in tables, or ends with updates of rows: loops, and onnxruntime the rest.

The updates can come last if no other operator after them reads or writes what they write, or writes what they read. So
can the gradients of lookups in tables, which are loops, too; and lookups come first if they read blobs of the workspace
alone. A table stays in memory of this program, which is written only if nobody else can see it, as by
``states.resident``; what onnxruntime is given is another array of the same memory, so that its references do not count.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NoReturn

import numpy as np

from caffe2_backend.runtime.blobs.burst import ONCE, Burst
from caffe2_backend.runtime.blobs.results import Blobs, DeferredBlob, Results
from caffe2_backend.runtime.program.buffers.handed_out import HandedOut
from caffe2_backend.runtime.program.interface import NetInterface
from caffe2_backend.runtime.program.operand_checks import OperandChecks
from caffe2_backend.runtime.program.origin import Origin
from caffe2_backend.runtime.program.program import Program
from caffe2_backend.runtime.program.row_updates.lookups import takes
from caffe2_backend.runtime.program.row_updates.parts import Loop, Parts
from caffe2_backend.runtime.program.row_updates.updatable import Kind
from caffe2_backend.runtime.sessions.session_options import SessionOptions
from caffe2_backend.runtime.values import Array, NoBlobError, Tensor, Value
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.netdef.views import NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef


class RowUpdateProgram:
    """A net on the host that begins with lookups or ends with updates of rows; the interface is that of Program.

    Args:
        net: the net; it must not be changed any more.
        parts: the operators that loops run.
        options, keep, origin, updated: see Program.
    """

    def __init__(
        self,
        net: NetDef,
        parts: Parts,
        options: SessionOptions,
        keep: Collection[str],
        origin: Origin,
        updated: Collection[str],
    ) -> None:
        self.interface = NetInterface.of(net, InitNet(), keep=keep, updated=updated)
        self.name = NetView(net).name
        self._whole = Program(net, options=options, keep=keep, origin=origin, updated=updated)
        self._first, self._origin = parts.first, origin
        self._before, self._after = ([Loop.of(*each) for each in part] for part in parts)
        self._is_whole = False
        main, rest = parts.rest(net)
        updates = [(op, how) for op, how in parts.last if isinstance(how, Kind)]
        self._tables = tuple(dict.fromkeys(op.inputs[i] for op, kind in updates for i in kind.tables))
        self._looked_up = frozenset(name for op, _ in self._first for name in op.outputs)
        operands = {name for op, _ in parts.last for name in op.inputs}
        self._main = Program(
            main,
            options=options,
            keep={*keep, *operands, *self.interface.optional},
            origin=Origin(origin.net, [origin.index(op.index) for op in rest]),
            updated={*updated, *self._tables},
        )
        self._inputs = (*self._main.interface.needs, *self._main.interface.may_need)
        self._fed = self._looked_up.intersection(self._inputs)
        known = {*self._inputs, *self._looked_up}.union(*(op.outputs for op in rest))
        self._needs: dict[str, OpView] = {}  # the operands that onnxruntime neither reads nor makes, and who reads them
        for op, _ in (*parts.first, *parts.last):
            self._needs.update({name: op for name in op.inputs if name not in known and name not in self._needs})
            known.update(op.outputs)
        self._memory: dict[str, tuple[HandedOut, Array]] = {}  # what workspaces have, and what onnxruntime is given

    @property
    def conversions(self) -> int:
        """How many conversions there were so far."""
        return self._main.conversions + self._whole.conversions

    @property
    def updates_in_place(self) -> bool:
        """Whether a run may overwrite values of states."""
        return bool(self._memory) or self._whole.updates_in_place

    def collect(self, blobs: Blobs) -> dict[str, Value]:
        """Return the blobs that the net reads. Raises NoBlobError if one is missing that it reads in any case."""
        if self._is_whole:
            return self._whole.collect(blobs)
        given = dict(self._main.collect(blobs, self._looked_up))
        for name, op in self._needs.items():
            value = blobs.get(name)
            if isinstance(value, DeferredBlob):
                value = value.compute(name)
            if value is None:
                raise NoBlobError(f"{self._origin.location(op)} reads blob {name!r}, which is not in the workspace")
            given[name] = value
        return given

    def run(
        self,
        given: Mapping[str, Value],
        constants: Mapping[str, Value] = MappingProxyType({}),
        burst: Burst = ONCE,
        held: int = 0,
    ) -> Results:
        """Run once, or a burst of steps; the arguments are those of :meth:`Program.run`."""
        if self._is_whole or not self._takes(given):
            self._is_whole = True
            return self._whole.run(given, constants, burst, held)
        results = self._step(given, constants, held)
        while burst.goes_on():
            states = {name: results.values[name] for name in self.interface.state if name in results.values}
            given = {**given, **states}
            del states
            try:
                results = self._step(given, constants, held and held + 2)  # by results and inputs
            except RunError:
                burst.take_back()
                break
        return results

    def _step(self, given: Mapping[str, Value], constants: Mapping[str, Value], held: int) -> Results:
        own = [name for name in self._tables if held and self._is_own(name, given, held)]
        inputs = {name: given[name] for name in self._inputs if name in given}
        inputs.update({name: self._memory[name][1] for name in own if name in inputs})
        looked_up: dict[str, Tensor] = {}
        for loop in self._before:
            found = [self._memory[name][1] if name in own else given[name] for name in loop.inputs]
            self._run(loop, found, looked_up)
        inputs.update({name: looked_up[name] for name in self._fed})
        results = self._main.run(self._main.recognize(inputs.get) or inputs, constants)
        values: dict[str, Tensor] = {**looked_up, **results.values}
        if not self._after:
            return Results(values, results.deferred, results.objects)
        # Blobs that are computed later from what onnxruntime was given need the old values.
        free = {name for name in own if not results.deferred or name not in inputs}
        tables = {name: self._memory[name] if name in free else _copied(given[name]) for name in self._tables}
        for loop in self._after:
            operands = [
                tables[name][1] if name in tables else values[name] if name in values else given.get(name)
                for name in loop.inputs
            ]
            self._run(loop, operands, values)
        for name, (memory, inner) in tables.items():
            values[name] = memory.value
            self._memory[name] = memory, inner
        return Results(values, results.deferred, results.objects)

    def _takes(self, given: Mapping[str, Value]) -> bool:
        """Whether the loops take the tables and the operands of lookups."""
        return all(_is_table(given.get(name)) for name in self._tables) and all(
            takes(form, [given.get(name) for name in op.inputs]) for op, form in self._first
        )

    def _run(self, loop: Loop, operands: Sequence[Value | None], values: dict[str, Tensor]) -> None:
        """Run one loop, and put what it outputs into ``values``; tables are updated in place."""
        try:
            made = loop.run(operands)
        except RunError as error:
            self._refuse(loop.op, operands, str(error))
        if made:
            values.update(zip(loop.op.outputs, made, strict=False))

    def _refuse(self, op: OpView, operands: Sequence[Value | None], reason: str) -> NoReturn:
        """Raise RunError, in the words of the check of the operator's operands if one finds what is wrong."""
        given = {name: value for name, value in zip(op.inputs, operands, strict=True) if value is not None}
        here = Origin(self._origin.net, [self._origin.index(op.index)])
        OperandChecks(NetDef(op=[op.proto]), here).require(given)
        raise self._origin.failure(op, reason) from None

    def _is_own(self, name: str, given: Mapping[str, Value], held: int) -> bool:
        """Whether a table is this program's memory, and nothing but its record and the caller refer to it."""
        memory = self._memory.get(name)
        return memory is not None and memory[0].value is given[name] and memory[0].is_free(held)


def _is_table(value: Value | None) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.float32 and value.ndim > 0 and value.size > 0


def _copied(value: Value) -> tuple[HandedOut, Array]:
    """Return a copy, as two arrays of the same memory of which neither refers to the other."""
    assert isinstance(value, np.ndarray)
    memory = np.ascontiguousarray(value).copy()
    value_of_all, inner = (np.ndarray(value.shape, value.dtype, memory.data) for _ in range(2))
    return HandedOut(value_of_all, None), inner

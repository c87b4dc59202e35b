"""Programs whose net begins with lookups in tables, or ends with updates of rows: loops, and onnxruntime the rest.

The updates can come last if no other operator after them reads or writes what they write, or writes what they read. So
can the gradients of lookups in tables, which are loops, too; and lookups come first if they read blobs of the workspace
alone. A table stays in memory of this program, which is written only if nobody else can see it, as by
``states.resident``; what onnxruntime is given is another array of the same memory, so that its references do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeVar

import numpy as np

from caffe2_backend.runtime.blobs.burst import ONCE, Burst
from caffe2_backend.runtime.blobs.results import Blobs, DeferredBlob, Results
from caffe2_backend.runtime.program.buffers.handed_out import HandedOut
from caffe2_backend.runtime.program.interface import NetInterface
from caffe2_backend.runtime.program.operand_checks import OperandChecks
from caffe2_backend.runtime.program.origin import Origin
from caffe2_backend.runtime.program.program import Program
from caffe2_backend.runtime.program.row_updates.lookups import FLOAT, takes
from caffe2_backend.runtime.program.row_updates.parts import Loop, Parts
from caffe2_backend.runtime.program.row_updates.updatable import Kind
from caffe2_backend.runtime.sessions.session_options import SessionOptions
from caffe2_backend.runtime.values import Array, NoBlobError, Tensor, Value
from caffe2_bridge.diagnostics import ConversionError, RunError
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.netdef.views import NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef

T = TypeVar("T")
_NOTHING: Final = Results({})


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
        # The updates with the checks of their ids; the first looks at them before it writes.
        self._later = [(loop, loop.check) for loop in self._after if loop.check is not None][1:]
        self._is_whole = False
        main, rest = parts.rest(net)
        updates = [(op, how) for op, how in parts.last if isinstance(how, Kind)]
        self._tables = tuple(dict.fromkeys(op.inputs[i] for op, kind in updates for i in kind.tables))
        operands = {name for op, _ in parts.last for name in op.inputs}
        self._main = Program(
            main,
            options=options,
            keep={*keep, *operands, *self.interface.optional},
            origin=Origin(origin.net, [origin.index(op.index) for op in rest]),
            updated={*updated, *self._tables},
        )
        self._rest_runs = bool(rest)
        inputs = (*self._main.interface.needs, *self._main.interface.may_need)
        known: set[str] = set()
        self._operands: dict[str, OpView] = {}  # what loops read of the workspace, and the first of these operators
        for op, how in (*parts.first, *((op, None) for op in rest), *parts.last):
            if how is not None:
                self._operands.update((name, self._operands.get(name, op)) for name in op.inputs if name not in known)
            known.update(op.outputs)
        self._kept = frozenset(inputs).intersection(self._tables)  # the tables that onnxruntime reads, too
        self._reads = tuple(dict.fromkeys((*self._operands, *inputs)))
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
        given: dict[str, Any] = dict(zip(self._reads, map(blobs.get, self._reads), strict=True))
        for name, op in self._operands.items():
            value = given[name]
            if value is None:
                raise NoBlobError(f"{self._origin.location(op)} reads blob {name!r}, which is not in the workspace")
            if isinstance(value, DeferredBlob):
                given[name] = value.compute(name)
        return given

    def run(
        self,
        given: Mapping[str, Value],
        constants: Mapping[str, Value] = MappingProxyType({}),
        burst: Burst = ONCE,
        held: int = 0,
    ) -> Results:
        """Run once, or a burst of steps; the arguments are those of :meth:`Program.run`."""
        if self._is_whole:
            return self._whole.run(given, constants, burst, held)
        if not self._takes(given):
            self._is_whole = True
            return self._whole.run(self._whole.collect(given), constants, burst, held)
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
        memory = self._memory
        own = [name for name, (out, _) in memory.items() if held and out.value is given[name] and out.is_free(held)]
        blobs = {**given, **{name: memory[name][1] for name in own}}
        made: dict[str, Tensor] = {}
        changed = False
        try:
            results = self._before_updates(blobs, made, constants)
            for name in self._tables:
                # Blobs that are computed later from what onnxruntime was given need the old values.
                if name not in own or (results.deferred and name in self._kept):
                    memory[name] = _copied(given[name])
                    blobs[name] = memory[name][1]
            for loop in self._after:
                self._run(loop, blobs, made)
                changed = changed or (bool(own) and loop.check is not None)
        except (RunError, ConversionError):
            if not changed:
                memory.clear()  # no value of the workspace has changed: it runs the operators alone, up to this one
            raise
        for name, (out, _) in memory.items():
            made[name] = out.value
        return Results(made, results.deferred, results.objects)

    def _before_updates(
        self, blobs: dict[str, Value], made: dict[str, Tensor], constants: Mapping[str, Value]
    ) -> Results:
        """Run lookups and onnxruntime, and look at the ids of later updates. Raises RunError, ConversionError."""
        for loop in self._before:
            self._run(loop, blobs, made)
        results = self._main.run(self._main.collect(blobs), constants) if self._rest_runs else _NOTHING
        made.update(results.values)
        blobs.update(results.values)
        for loop, check in self._later:
            self._try(loop, blobs, check)
        return results

    def _takes(self, given: Mapping[str, Value]) -> bool:
        """Whether the loops take the tables and the operands of lookups."""
        for name in self._tables:
            value = given[name]
            if not isinstance(value, np.ndarray) or value.dtype != FLOAT or not value.ndim or not value.size:
                return False
        return all(takes(form.needs, list(map(given.get, op.inputs))) for op, form in self._first)

    def _run(self, loop: Loop, blobs: dict[str, Value], made: dict[str, Tensor]) -> None:
        """Run one loop on blobs, and put what it outputs there and into ``made``; tables are updated in place."""
        for name, value in zip(loop.op.outputs, self._try(loop, blobs, loop.run), strict=False):
            blobs[name] = made[name] = value

    def _try(self, loop: Loop, blobs: Mapping[str, Value], run: Callable[[Sequence[Any]], T]) -> T:
        """Return what a loop makes of its operands. Raises RunError."""
        operands = list(map(blobs.get, loop.inputs))
        try:
            return run(operands)
        except RunError as error:
            self._refuse(loop.op, operands, str(error))

    def _refuse(self, op: OpView, operands: Sequence[Value | None], reason: str) -> NoReturn:
        """Raise RunError, in the words of the check of the operator's operands if one finds what is wrong."""
        given = {name: value for name, value in zip(op.inputs, operands, strict=True) if value is not None}
        here = Origin(self._origin.net, [self._origin.index(op.index)])
        OperandChecks(NetDef(op=[op.proto]), here).require(given)
        raise self._origin.failure(op, reason) from None


def _copied(value: Value) -> tuple[HandedOut, Array]:
    """Return a copy, as two arrays of the same memory of which neither refers to the other."""
    assert isinstance(value, np.ndarray)
    memory = np.ascontiguousarray(value).copy()
    value_of_all, inner = (np.ndarray(value.shape, value.dtype, memory.data) for _ in range(2))
    return HandedOut(value_of_all, None), inner

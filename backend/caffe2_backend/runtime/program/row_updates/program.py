"""Programs whose net ends with updates of rows: onnxruntime runs the rest, then loops update the tables in place.

The updates can come last if no other operator after them reads or writes what they write, or writes what they read. A
table stays in memory of this program, which is written only if nobody else can see it, as by ``states.resident``; what
onnxruntime is given is another array of the same memory, so that its references do not count.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from caffe2_backend.runtime.blobs.burst import ONCE, Burst
from caffe2_backend.runtime.blobs.results import Blobs, Results, value_of
from caffe2_backend.runtime.program.buffers.handed_out import HandedOut
from caffe2_backend.runtime.program.interface import NetInterface
from caffe2_backend.runtime.program.origin import Origin
from caffe2_backend.runtime.program.program import Program
from caffe2_backend.runtime.program.row_updates.kernels import is_available
from caffe2_backend.runtime.program.row_updates.operators import Kind, kind_of, update_rows
from caffe2_backend.runtime.sessions.session_options import SessionOptions
from caffe2_backend.runtime.values import Array, NoBlobError, Tensor, Value
from caffe2_bridge.diagnostics import Location, RunError
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.netdef.views import NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.ssa.effects import analyse
from caffe2_bridge.ssa.outputs import declared_outputs

Update = tuple[OpView, Kind]


class RowUpdateProgram:
    """A net on the host that ends with updates of rows; the interface is that of Program.

    Args:
        net: the net; it must not be changed any more.
        updates: the operators that update rows, in order.
        whole: makes a program of the whole net, for inputs that the loops do not take.
        options, keep, origin, updated: see Program.
    """

    def __init__(
        self,
        net: NetDef,
        updates: Sequence[Update],
        options: SessionOptions,
        keep: Collection[str],
        origin: Origin,
        updated: Collection[str],
    ) -> None:
        self.interface = NetInterface.of(net, InitNet(), keep=keep, updated=updated)
        self.name = NetView(net).name
        self._whole = Program(net, options=options, keep=keep, origin=origin, updated=updated)
        self._updates, self._origin = updates, origin
        self._is_whole = False
        last = {op.index for op, _ in updates}
        rest = [op for op in NetView(net).ops if op.index not in last]
        self._tables = tuple(dict.fromkeys(op.inputs[i] for op, kind in updates for i in kind.tables))
        operands = {name for op, _ in updates for name in op.inputs}
        main = NetDef(name=net.name, op=[op.proto for op in rest], arg=net.arg)
        if net.HasField("device_option"):
            main.device_option.CopyFrom(net.device_option)
        main.external_output.extend(name for name in declared_outputs(net) if any(name in op.outputs for op in rest))
        self._main = Program(
            main,
            options=options,
            keep={*keep, *operands, *self.interface.optional},
            origin=Origin(origin.net, [origin.index(op.index) for op in rest]),
            updated={*updated, *self._tables},
        )
        self._inputs = (*self._main.interface.needs, *self._main.interface.may_need)
        written = {name for op in rest for name in op.outputs}
        known = {*self._inputs, *written}
        self._needs = tuple(dict.fromkeys(name for op, _ in updates for name in op.inputs if name not in known))
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
        """The blobs that the net reads. Raises NoBlobError if one is missing that it reads in any case."""
        if self._is_whole:
            return self._whole.collect(blobs)
        given = dict(self._main.collect(blobs))
        for name in self._needs:
            value = value_of(name, blobs)
            if value is None:
                op = next(op for op, _ in self._updates if name in op.inputs)
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
        if self._is_whole or not all(_is_table(given.get(name)) for name in self._tables):
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
        results = self._main.run(inputs, constants)
        # Blobs that are computed later from what onnxruntime was given need the old values.
        free = {name for name in own if not results.deferred or name not in inputs}
        tables = {name: self._memory[name] if name in free else _copied(given[name]) for name in self._tables}
        values: dict[str, Tensor] = {**results.values}
        for op, kind in self._updates:
            self._update(op, kind, tables, values, given)
        for name, (memory, inner) in tables.items():
            values[name] = memory.value
            self._memory[name] = memory, inner
        return results._replace(values=values)

    def _update(
        self,
        op: OpView,
        kind: Kind,
        tables: Mapping[str, tuple[HandedOut, Array]],
        values: dict[str, Tensor],
        given: Mapping[str, Value],
    ) -> None:
        location = self._origin.location(op)
        operands: dict[int, Array] = {}
        for index, name in enumerate(op.inputs):
            value = values[name] if name in values else given[name]
            if index not in kind.tables and isinstance(value, np.ndarray):
                operands[index] = value
        try:
            first = update_rows(op, kind, [tables[op.inputs[i]][1] for i in kind.tables], operands)
        except (RunError, KeyError) as error:
            reason = error if isinstance(error, RunError) else "its operands must be tensors on the host"
            failure = RunError(f"{location}: {reason} (inputs: {', '.join(op.inputs)})")
            failure.operator = location.index
            raise failure from None
        if first is not None:
            values[op.outputs[0]] = first

    def _is_own(self, name: str, given: Mapping[str, Value], held: int) -> bool:
        """Whether a table is this program's memory, and nothing but its record and the caller refer to it."""
        memory = self._memory.get(name)
        return memory is not None and memory[0].value is given[name] and memory[0].is_free(held)


def _is_table(value: Value | None) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.float32 and value.ndim > 0 and value.size > 0


def _copied(value: Value) -> tuple[HandedOut, Array]:
    """A copy, as two arrays of the same memory of which neither refers to the other."""
    assert isinstance(value, np.ndarray)
    memory = np.ascontiguousarray(value).copy()
    value_of_all, inner = (np.ndarray(value.shape, value.dtype, memory.data) for _ in range(2))
    return HandedOut(value_of_all, None), inner


def row_updates(net: NetDef, location: Location) -> list[Update]:
    """The operators of a net that loops can run after all others, in order; none if numba is not installed."""
    if not is_available():
        return []
    effects = analyse(net, location, [])
    found: list[Update] = []
    reads: set[str] = set()  # of the others after an operator
    writes: set[str] = set()
    for op in reversed(NetView(net).ops):
        effect = effects.ops[op.index]
        kind = kind_of(op)
        if kind is not None and not {*op.outputs} & (reads | writes) and not {*op.inputs} & writes:
            found.append((op, kind))
            continue
        reads.update(effect.found)
        writes.update((*effect.changed, *effect.mutates))
    return found[::-1]

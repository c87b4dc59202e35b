"""The operators of a net that loops run, before and after those that onnxruntime runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from caffe2_backend.runtime.program.row_updates.kernels import is_available
from caffe2_backend.runtime.program.row_updates.lookups import (
    GRADIENTS,
    LOOKUPS,
    ROWS,
    Form,
    form_of,
    looker,
    spreader,
    takes,
)
from caffe2_backend.runtime.program.row_updates.updatable import Kind, ids_checker, kind_of, row_updater
from caffe2_backend.runtime.values import Array
from caffe2_bridge.diagnostics import Location
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.netdef.replace import with_operators
from caffe2_bridge.netdef.views import NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.ssa.effects import NetEffects, analyse
from caffe2_bridge.ssa.outputs import declared_outputs

Lookups = tuple[tuple[OpView, Form], ...]


class Parts(NamedTuple):
    """The operators that loops run: lookups before onnxruntime, then gradients of lookups and updates of rows.

    Each with the form of a lookup, or how it updates rows; in the order of the net.
    """

    first: Lookups
    last: tuple[tuple[OpView, Form | Kind], ...] = ()

    def rest(self, net: NetDef) -> tuple[NetDef, list[OpView]]:
        """Return the net of the other operators, and these; it declares the outputs that no lookup makes for it."""
        outside = {op.index for op, _ in (*self.first, *self.last)}
        ops = [op for op in NetView(net).ops if op.index not in outside]
        rest = with_operators(net, [op.proto for op in ops])
        made = {name for op, _ in (*self.first, *self.last) for name in op.outputs}
        made.difference_update(*(op.outputs for op in ops))
        del rest.external_output[:]
        rest.external_output.extend(name for name in declared_outputs(net) if name not in made)
        return rest, ops


class Loop(NamedTuple):
    """A loop: its operator, the names of its operands, and what runs it: the outputs that are no tables.

    ``check`` finds ids that are no rows before any table is written; None for those that write none.
    """

    op: OpView
    inputs: tuple[str, ...]
    run: Callable[[Sequence[Any]], tuple[Array, ...]]
    check: Callable[[Sequence[Any]], object] | None = None

    @classmethod
    def of(cls, op: OpView, how: Form | Kind) -> Loop:
        """Return the loop of an operator."""
        if isinstance(how, Kind):
            return cls(op, op.inputs, row_updater(op, how), ids_checker(op, how))
        return cls(op, op.inputs, looker(op, how) if how.grads is None else spreader(op, how))


def row_updates(net: NetDef, location: Location) -> Parts | None:
    """Return the operators of a net that loops can run around all others; None if there are none, or without numba.

    Lookups of one row for each id are among them where they spare onnxruntime.
    """
    if not is_available():
        return None
    ops, effects = NetView(net).ops, analyse(net, location, [])
    last = tuple(_last(ops, effects))
    indices = {op.index for op, _ in last}
    first = tuple(_lookups(ops, effects, indices, InitNet(), {**LOOKUPS, **ROWS}))
    if len(first) + len(last) < len(ops):
        first = tuple(_lookups(ops, effects, indices, InitNet(), LOOKUPS))
    updates = any(isinstance(how, Kind) for _, how in last)
    return Parts(first, last) if first or updates else None


def _last(ops: Sequence[OpView], effects: NetEffects) -> list[tuple[OpView, Form | Kind]]:
    """Return the gradients of lookups and the updates of rows that can run after all other operators.

    An update overwrites the table that the run is given. Where another operator writes the table first, or a loop as
    the rest of what it outputs, the update belongs to the others, and with it what reads its result: hence they are
    looked for until none is left out.
    """
    left_out: set[int] = set()
    while True:
        last = _after_all_others(ops, effects, left_out)
        tables_of = {op.index: how.outputs if isinstance(how, Kind) else () for op, how in last}
        written = {name for op in ops if op.index not in tables_of for name in _written(effects, op)}
        written.update(name for op, _ in last for i, name in enumerate(op.outputs) if i not in tables_of[op.index])
        made = {
            op.index
            for op, how in last
            if isinstance(how, Kind) and not written.isdisjoint(op.inputs[i] for i in how.tables)
        }
        if not made:
            return last
        left_out |= made


def _after_all_others(
    ops: Sequence[OpView], effects: NetEffects, left_out: Collection[int]
) -> list[tuple[OpView, Form | Kind]]:
    """Return those whose results no other operator reads or writes, and whose operands none changes after them."""
    last: list[tuple[OpView, Form | Kind]] = []
    reads: set[str] = set()  # of the others after an operator
    writes: set[str] = set()
    for op in reversed(ops):
        how = None if op.index in left_out else kind_of(op) or form_of(op, GRADIENTS)
        if how is not None and not {*op.outputs} & (reads | writes) and not {*op.inputs} & writes:
            last.append((op, how))
            continue
        reads.update(effects.ops[op.index].found)
        writes.update(_written(effects, op))
    return last[::-1]


def _written(effects: NetEffects, op: OpView) -> tuple[str, ...]:
    """Return the blobs that an operator writes, in bodies too."""
    effect = effects.ops[op.index]
    return (*effect.changed, *effect.mutates)


def first_lookups(net: NetDef, init: InitNet, location: Location) -> Lookups:
    """Return the lookups of a net and its parameters that can run before all others; none without numba."""
    ops = NetView(net).ops
    if not is_available() or all(form_of(op, LOOKUPS) is None for op in ops):
        return ()
    return tuple(_lookups(ops, analyse(net, location, []), (), init, LOOKUPS))


def _lookups(
    ops: Sequence[OpView], effects: NetEffects, last: Collection[int], init: InitNet, forms: Mapping[str, Form]
) -> Iterator[tuple[OpView, Form]]:
    """Yield the lookups that can run before all operators but those that run last.

    They read no blobs that operators of the init net make. A table that onnxruntime updates stays where it is: a loop
    would need a copy of it in every run.
    """
    kept: set[str] = set()
    for op in ops:
        if op.index not in last:
            kept.update(_written(effects, op))
    touched: set[str] = set()
    changed = {name for op in init.rest for name in op.outputs}
    for op in ops:
        form, effect = form_of(op, forms), effects.ops[op.index]
        free = changed.isdisjoint(op.inputs) and touched.isdisjoint(op.outputs)
        if form is not None and free and op.inputs[form.table or 0] not in kept and _fits(form, op, init):
            yield op, form
        elif op.index not in last:
            touched.update(effect.touched)
            changed.update(_written(effects, op))


def _fits(form: Form, op: OpView, init: InitNet) -> bool:
    """Whether loops take the operands of a lookup that are parameters."""
    found = [init.parameters.get(name) for name in op.inputs]
    return takes(form.needs, [parameter and _without_rows(parameter) for parameter in found], partly=True)


def _without_rows(parameter: Parameter) -> Array | Parameter:
    """Return an array of a parameter's type, rank and columns; the parameter if it is an Int8 tensor."""
    if parameter.scale is not None:
        return parameter
    return np.empty((0, *parameter.shape[1:]) if parameter.shape else (), parameter.dtype)

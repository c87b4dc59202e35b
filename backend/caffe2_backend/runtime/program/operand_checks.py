"""Operands of a net that a run is given, checked before it as real Caffe2 checks them.

An exported model has no nodes for it: negative ids count from the end there, and dims of size 1 are repeated. In a
workspace the operands that are inputs of a net, such as ids and labels, are looked at before the run, and as an option
ids, labels and lengths that it computes after the run.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np

from caffe2_backend.runtime.program.operand_rules import RULES, OperandRule
from caffe2_backend.runtime.program.origin import Origin
from caffe2_backend.runtime.values import DeviceTensor, Value
from caffe2_bridge.netdef.views import ArgumentError, NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef


class OperandChecks:
    """The checks of operands of one net.

    Args:
        net: the net.
        origin: of the net, for messages.
        computed: whether to check the operands whose contents are read and that the net computes, not its inputs.

    Attributes:
        computed: the blobs that the net computes and that checks read.
    """

    def __init__(self, net: NetDef, origin: Origin, *, computed: bool = False) -> None:
        self._origin = origin
        self._checks: list[_Check] = []
        self.computed: set[str] = set()
        ops = NetView(net).ops
        last = {name: op.index for op in ops for name in op.outputs}
        written: set[str] = set()
        seen = set()
        for op in ops:
            # What is written later is not what the operator read, as it is found after the run.
            unknown = {name for name in op.inputs if last.get(name, -1) >= op.index} if computed else written
            for rule in RULES.get(op.type, ()) if not op.proto.domain else ():
                check = _Check.of(op, rule, unknown)
                if check is None or (key := (rule.rule, check.names)) in seen:
                    continue
                found = written.intersection(check.names[: check.needed]) if computed and rule.reads else set()
                if found or not computed:
                    seen.add(key)
                    self.computed |= found
                    self._checks.append(check)
            written.update(op.outputs)
        self._of_contents = [check for check in self._checks if check.reads]

    def require(self, given: Mapping[str, Value], *, shapes: bool = True) -> None:
        """Raise RunError if operands among the inputs of a run are not what an operator takes.

        ``shapes``: whether shapes may be others than those that were checked before.
        """
        for check in self._checks if shapes else self._of_contents:
            wrong = check.find(given)
            if wrong is not None:
                raise self._origin.failure(check.op, wrong)

    def require_computed(self, given: Mapping[str, Value], results: Mapping[str, Value]) -> None:
        """Raise RunError if operands that a run computed, from these inputs, are not what an operator takes."""
        if self.computed:
            computed = {name: _on_host(results[name]) for name in self.computed if name in results}
            for check in self._checks:
                check.forget()  # a run may write the memory of an earlier one
            self.require({**given, **computed})


class _Check:
    """One rule for one operator."""

    def __init__(self, op: OpView, rule: OperandRule, names: tuple[Any, ...]) -> None:
        """Take a rule for an operator; ``names``: of the operands, None for those that are not known."""
        self.op = op
        self.names = names
        self.reads = rule.reads
        self._rule = rule
        self.needed = len(rule.operands or names)
        self._last: tuple[Any, ...] = ()  # weak references: who looks at a value must not keep it from being updated

    @classmethod
    def of(cls, op: OpView, rule: OperandRule, written: set[str]) -> _Check | None:
        """Return the check, if what it needs is known; ``written``: blobs that are not known."""

        def known(index: int) -> str | None:
            return op.inputs[index] if index < len(op.inputs) and op.inputs[index] not in written else None

        names = tuple(map(known, rule.operands or range(len(op.inputs))))
        if None in names or not names:
            return None
        return cls(op, rule, names + tuple(map(known, rule.optional)))

    def forget(self) -> None:
        """Forget the operands of the last run."""
        self._last = ()

    def find(self, given: Mapping[str, Value]) -> str | None:
        """Return what is wrong; None if nothing is, or the operands are those of the last run, or not all tensors."""
        values = list(map(given.get, self.names))
        for last, value in zip(self._last, values, strict=False):
            if last() is not value:
                break
        else:
            if self._last:
                return None
        tensors = [value if isinstance(value, np.ndarray | DeviceTensor) else None for value in values]
        if any(value is None for value in tensors[: self.needed]):
            return None
        if self._rule.reads and not isinstance(tensors[0], np.ndarray):
            return None
        try:
            wrong = self._rule.rule(self.op, tensors)
        except ArgumentError:  # the conversion reports it
            return None
        self._last = () if wrong is not None else tuple(map(_reference, values))
        return wrong


def _on_host(value: Value) -> Value:
    return value.numpy() if isinstance(value, DeviceTensor) else value


def _reference(value: Any) -> Any:
    return (lambda: None) if value is None else weakref.ref(value)

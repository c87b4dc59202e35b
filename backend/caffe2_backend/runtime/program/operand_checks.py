"""Operands of a net that a run is given, checked before it as real Caffe2 checks them.

An exported model has no nodes for it: negative ids count from the end there, and dims of size 1 are repeated. In a
workspace the operands that are inputs of a net, such as ids and labels, are looked at before the run.
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
    """The checks of the inputs of one net; ``origin``: of the net, for messages."""

    def __init__(self, net: NetDef, origin: Origin) -> None:
        self._origin = origin
        self._checks: list[_Check] = []
        written: set[str] = set()
        seen = set()
        for op in NetView(net).ops:
            for rule in RULES.get(op.type, ()) if not op.proto.domain else ():
                check = _Check.of(op, rule, written)
                if check is not None and (key := (rule.rule, check.names)) not in seen:
                    seen.add(key)
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


class _Check:
    """One rule for one operator."""

    def __init__(self, op: OpView, rule: OperandRule, names: tuple[Any, ...]) -> None:
        """Take a rule for an operator; ``names``: of the operands, None for those that are not known."""
        self.op = op
        self.names = names
        self.reads = rule.reads
        self._rule = rule
        self._needed = len(rule.operands or names)
        self._last: tuple[Any, ...] = ()  # weak references: who looks at a value must not keep it from being updated

    @classmethod
    def of(cls, op: OpView, rule: OperandRule, written: set[str]) -> _Check | None:
        """Return the check, if what it needs are inputs of the net; ``written``: blobs that the net wrote before."""

        def known(index: int) -> str | None:
            return op.inputs[index] if index < len(op.inputs) and op.inputs[index] not in written else None

        names = tuple(map(known, rule.operands or range(len(op.inputs))))
        if None in names or not names:
            return None
        return cls(op, rule, names + tuple(map(known, rule.optional)))

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
        if any(value is None for value in tensors[: self._needed]):
            return None
        if self._rule.reads and not isinstance(tensors[0], np.ndarray):
            return None
        try:
            wrong = self._rule.rule(self.op, tensors)
        except ArgumentError:  # the conversion reports it
            return None
        self._last = () if wrong is not None else tuple(map(_reference, values))
        return wrong


def _reference(value: Any) -> Any:
    return (lambda: None) if value is None else weakref.ref(value)

"""Scopes: which variable of the source stands for a blob, in a net and in the nets inside its operators."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from caffe2_bridge.control import Do, RecurrentNetwork
from caffe2_torch.evaluation.program import ProgramStep

Key: TypeAlias = Hashable


@dataclass
class NameScope:
    """The names of a net.

    Attributes:
        parent: the scope around it; None for the net of the module.
        bound: the names that stand for blobs of the scope around, with these; None for all that are not ``own``.
        own: the names of the net's own, where ``bound`` is None.
        read_outside: expressions of blobs around that the net reads, in order, for the parameters of a method.
    """

    parent: NameScope | None = None
    bound: Mapping[str, str] | None = None
    own: Collection[str] = ()
    read_outside: dict[str, None] = field(default_factory=dict)

    def outer(self, name: str) -> str | None:
        """Return the blob of the scope around that a name stands for; None for one of its own."""
        if self.parent is None:
            return None
        if self.bound is not None:
            return self.bound.get(name)
        return None if name in self.own else name

    def key(self, name: str) -> Key:
        """Return what identifies the blob of a name among all blobs."""
        outer = self.outer(name)
        if self.parent is None:
            return name
        return (id(self), name) if outer is None else self.parent.key(outer)


class Scopes:
    """The scope of each body, made once."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, str], NameScope] = {}

    def inside(self, step: ProgramStep, argument: str, around: NameScope) -> NameScope:
        """Return the scope of a body of an operator; the bodies of If and While share that of the net around."""
        control = step.control
        if not isinstance(control, Do | RecurrentNetwork):
            return around
        key = (id(step), argument)
        if key not in self._found:
            if isinstance(control, Do):
                self._found[key] = NameScope(around, bound=control.bindings)
            else:
                spec = control.spec
                own = {spec.timestep, *(link.internal for link in spec.links), *spec.written}
                self._found[key] = NameScope(around, own=own)
        return self._found[key]

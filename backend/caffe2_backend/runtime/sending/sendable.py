"""What is pickled by what it is made of, and opens its sessions where it is first used."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import uuid4
from weakref import WeakValueDictionary

from caffe2_backend.runtime.process_bound import refuse_pickling
from caffe2_backend.runtime.sending.sources import Source

_KEPT: Final = 4  # objects whose sessions stay open in a process that received them, between its tasks
_lock = threading.RLock()
_made_here: WeakValueDictionary[str, Sendable] = WeakValueDictionary()
_received: OrderedDict[str, Sendable] = OrderedDict()


@dataclass(frozen=True)
class Recipe:
    """What an object is made of.

    Attributes:
        source: its model.
        arguments: the other arguments of its constructor, by name.
        token: names the object in all processes.
    """

    source: Source
    arguments: Mapping[str, Any]
    token: str = field(default_factory=lambda: uuid4().hex)


class Sendable:
    """Base of what can be pickled though it holds sessions of onnxruntime: by what it is made of.

    It cannot be changed, so that a copy is the object itself. In another process its sessions open when an attribute is
    first needed, once for all copies that arrive; in the process that made it, its pickle is the object itself.
    """

    _waits: bool = False  # whether its sessions are not open yet
    _recipe: Recipe | None

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: Any) -> Self:
        return self

    def __reduce_ex__(self, _: Any, /) -> Any:
        if self._recipe is None:
            refuse_pickling(self)
        sent = self._recipe.source.sent()
        if not self._waits:
            with _lock:
                _made_here.setdefault(self._recipe.token, self)
        return restored, (type(self), Recipe(sent, self._recipe.arguments, self._recipe.token))

    if not TYPE_CHECKING:  # else every name would be an attribute

        def __getattr__(self, name: str) -> Any:
            """Open what was received; an open object has its attributes, and does not come here."""
            state = vars(self)
            if not name.startswith(("__", "_repr_", "_ipython_")):  # what tools ask of any object
                with _lock:  # several threads may need the first attribute
                    if self._waits:
                        state.update(vars(_open(type(self), state["_recipe"])), _waits=False)
                if name in state:
                    return state[name]
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)


def restored(kind: type[Sendable], recipe: Recipe) -> Sendable:
    """Return the object of a recipe: the one that is open in this process, or one that opens on first use."""
    with _lock:
        found = _found(recipe.token)
    if found is not None:
        return found
    waiting = object.__new__(kind)
    vars(waiting).update(_recipe=recipe, _waits=True)
    return waiting


def _open(kind: type[Sendable], recipe: Recipe) -> Sendable:
    with _lock:  # so that threads that receive the same model open it once
        found = _found(recipe.token)
        if found is None:
            found = kind(recipe.source, **recipe.arguments)  # type: ignore[call-arg] # as the constructors take it
            found._recipe = recipe  # noqa: SLF001 - the same module
            _received[recipe.token] = found
            if len(_received) > _KEPT:
                _received.popitem(last=False)
        return found


def _found(token: str) -> Sendable | None:
    if token in _received:
        _received.move_to_end(token)
        return _received[token]
    return _made_here.get(token)


def _forget() -> None:
    """Forget what the parent of a forked process opened: the threads of its sessions do not exist here."""
    global _lock  # noqa: PLW0603 - a thread of the parent may have held it
    _lock = threading.RLock()
    _made_here.clear()
    _received.clear()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget)

"""Observers of nets that were created: how long they took, and how often their operators ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final
from weakref import WeakKeyDictionary

from caffe2_backend.runtime.calls.blob_workspace import Workspace
from caffe2_bridge.diagnostics import RunError
from caffe2_compat.extension.values.blobs import text
from caffe2_compat.workspace.named_workspaces import current

__all__ = ["Observer", "add_observer_to_net", "num_observers_on_net", "remove_observer_from_net"]

_MILLISECONDS: Final = 1000.0


class Observer:
    """Observes the runs of a net."""

    def __init__(self, operators: int) -> None:
        self._operators = operators
        self._runs = 0
        self._seconds = 0.0

    def add(self, runs: int, seconds: float) -> None:
        """Note runs, and how long they took in all."""
        self._runs += runs
        self._seconds += seconds

    def average_time(self) -> float:
        """Return the milliseconds per run."""
        return self._seconds * _MILLISECONDS / max(self._runs, 1)

    def average_time_children(self) -> float:
        """Return the milliseconds per operator and run: operators are not measured apart, but run as one session."""
        return self.average_time() / max(self._operators, 1)

    def debug_info(self) -> str:
        """Return how often operators ran."""
        return f"This operator runs {self._runs * self._operators} times."


_KINDS: Final = ("TimeObserver", "RunCountObserver")
_NONE: Final[Mapping[str, list[Observer]]] = MappingProxyType({})
_observers: Final[WeakKeyDictionary[Workspace, dict[str, list[Observer]]]] = WeakKeyDictionary()


def _of(name: str) -> list[Observer]:
    current().net(name)  # it must exist
    return _observers.setdefault(current(), {}).setdefault(name, [])


def add_observer_to_net(net_name: Any, kind: str) -> Observer:
    """Add an observer to a net. Raises RunError if the net or the kind does not exist."""
    if kind not in _KINDS:
        raise RunError(f"the observer must be one of {', '.join(_KINDS)}, not {kind}")
    name = text(net_name)
    observer = Observer(len(current().net(name).op))
    _of(name).append(observer)
    return observer


def remove_observer_from_net(net_name: Any, observer: Observer) -> None:
    """Remove an observer from a net. Raises RunError if the net does not exist."""
    observers = _of(text(net_name))
    if observer in observers:
        observers.remove(observer)


def num_observers_on_net(net_name: Any) -> int:
    """Return how many observers a net has. Raises RunError if it does not exist."""
    return len(_of(text(net_name)))


def observers_of(workspace: Workspace, name: str) -> Sequence[Observer]:
    """Return the observers of a net."""
    return _observers.get(workspace, _NONE).get(name, ())

"""Runtimes in processes of their own: one process serves all models of a runtime, one request after the other."""

from __future__ import annotations

import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final, Generic, TypeVar

from caffe2_backend.runtime.values import Int8Tensor, Tensor
from caffe2_bridge.diagnostics import RunError
from caffe2_validation.runtimes.base import AnyModel, Form, Value
from caffe2_validation.runtimes.worker_process import WorkerProcess

START_SECONDS = 120.0

M = TypeVar("M", bound=AnyModel)
Values = dict[str, Any]


class ProcessRuntime(ABC, Generic[M]):
    """A runtime in a process that starts with the first model and serves all that follow.

    Threads may share one: the process answers one request after the other. A fork forgets the process, which stays its
    parent's, and starts one of its own.

    Args:
        name: see Runtime.
        title: what messages call the runtime.
        seconds: what a run may take, from when the process turns to it, before the process is ended.
    """

    form: Form

    def __init__(self, name: str, title: str, seconds: float) -> None:
        self.name = name
        self._title = title
        self._seconds = seconds
        self._keys = count()
        self._versions: dict[str, str] = {}
        self._dropped: deque[str] = deque()
        self._forked()
        _INSTANCES.add(self)

    def _forked(self) -> None:
        """Begin without a process; after a fork, that of the parent and a lock that one of its threads may hold."""
        self._lock = threading.RLock()
        self._process: WorkerProcess | None = None
        self._loaded: set[str] = set()

    def missing(self) -> str:
        """See Runtime."""
        if not hasattr(os, "fork"):  # Windows, where nothing waits for a pipe
            return f"{self._title} runs in a process of its own, asked through pipes, which takes a POSIX system"
        return self.missing_program()

    @abstractmethod
    def missing_program(self) -> str:
        """Return what is not installed, and how to install it; empty if everything is there."""

    @abstractmethod
    def command(self) -> tuple[list[str], dict[str, str]]:
        """Return the program with its arguments, and its variables of the environment."""

    @abstractmethod
    def model_of(self, model: AnyModel) -> M:
        """Return the model in the runtime's form."""

    @abstractmethod
    def outputs_of(self, model: M) -> list[str]:
        """Return the names of the model's outputs."""

    @abstractmethod
    def load_requests(self, model: M) -> Iterator[tuple[dict[str, Any], Values]]:
        """Yield what is asked to load a model: headers and values."""

    def versions(self) -> dict[str, str]:
        """See Runtime. Starts the process."""
        with self._lock:
            if not self._versions:
                header, _ = self._ask({"do": "about"}, {}, START_SECONDS)
                self._versions = header["versions"]
            return dict(self._versions)

    def load(self, model: AnyModel) -> _Loaded[M]:
        """See Runtime. The process reads the model when it first runs."""
        return _Loaded(self, self.model_of(model), str(next(self._keys)))

    def run(self, key: str, model: M, inputs: Mapping[str, Any], outputs: list[str]) -> Values:
        """Run a model, which is sent where the process does not have it. Raises RunError."""
        with self._lock:
            if self._process is None or key not in self._loaded:
                for request, values in self.load_requests(model):
                    self._ask({**request, "key": key}, values, None)
                self._loaded.add(key)
            _, values = self._ask({"do": "run", "key": key, "outputs": outputs}, inputs, None)
            return values

    def forget(self, key: str) -> None:
        """Drop a model with the next request: this is called where an object ends, in the middle of anything."""
        self._dropped.append(key)

    def close(self) -> None:
        """End the process."""
        with self._lock:
            process, self._process = self._process, None
            self._loaded.clear()
            if process is not None:
                process.close()

    def _ask(
        self, header: dict[str, Any], values: Mapping[str, Any], seconds: float | None
    ) -> tuple[dict[str, Any], Values]:
        """Ask the process, with the lock held. One that was left in the middle of an answer is ended."""
        limit = self._seconds if seconds is None else seconds
        if self._process is None:
            reason = self.missing()
            if reason:
                raise RunError(reason)
            self._process = WorkerProcess(self._title, *self.command())
            limit += START_SECONDS
        dropped = [self._dropped.popleft() for _ in range(len(self._dropped))]
        self._loaded.difference_update(dropped)
        try:
            answer, found = self._process.ask({**header, "forget": dropped}, values, limit)
        except BaseException:  # Ctrl-C, too
            self.close()
            raise
        if "error" in answer:
            # What follows in Caffe2's are addresses in its libraries.
            raise RunError(f"{self.name}: {answer['error'].partition(chr(10) + 'frame #')[0].strip()}")
        return answer, found


# All that exist: a fork forgets their processes.
_INSTANCES: Final[weakref.WeakSet[ProcessRuntime[Any]]] = weakref.WeakSet()


def _forget_processes() -> None:
    for instance in list(_INSTANCES):
        if instance._process is not None:  # noqa: SLF001 - the same module
            instance._process.close()  # noqa: SLF001 - the same
        instance._forked()  # noqa: SLF001 - the same


if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=_forget_processes)


def sent(value: Tensor) -> Any:
    """Return a value as the process takes it: an Int8 tensor is a plain tuple."""
    return tuple(value) if isinstance(value, Int8Tensor) else value


class _Loaded(Generic[M]):
    def __init__(self, runtime: ProcessRuntime[M], model: M, key: str) -> None:
        self._runtime = runtime
        self._model = model
        self._key = key

    def run(self, inputs: Mapping[str, Value], outputs: Sequence[str] | None = None) -> dict[str, Value]:
        given = {name: sent(value) for name, value in inputs.items()}
        wanted = self._runtime.outputs_of(self._model) if outputs is None else list(outputs)
        found = self._runtime.run(self._key, self._model, given, wanted)
        return {name: Int8Tensor(*value) if isinstance(value, tuple) else value for name, value in found.items()}

    def __del__(self) -> None:
        self._runtime.forget(self._key)

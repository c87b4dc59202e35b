"""Worker processes that survive what they run: a native crash or a hang costs one case, not the run."""

from __future__ import annotations

import multiprocessing
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import groupby
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Final, Generic, Protocol, Self, TypeVar

from conformance.check import Checker, Result, Status, Task

TIME_LIMIT: Final = 120.0
START_LIMIT: Final = 120.0
_POLL: Final = 1.0
T = TypeVar("T")
R = TypeVar("R")
T_contra = TypeVar("T_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)


class Checks(Protocol[T_contra, R_co]):
    """What a worker does with each task."""

    def check(self, task: T_contra, /) -> R_co:
        """Return the result of one task."""
        ...


def _serve(tasks: Connection, make_checker: Callable[[], Checks[T, R]]) -> None:
    """Send None when ready, then one result for each task, until the other end hangs up."""
    checker = make_checker()
    tasks.send(None)
    while True:
        try:
            task: T = tasks.recv()
        except EOFError:
            return
        tasks.send(checker.check(task))


class _Worker(Generic[T, R]):
    """One process, the task it is at, and the tasks that wait for it."""

    def __init__(
        self, make_checker: Callable[[], Checks[T, R]], lost: Callable[[T, str], R], time_limit: float
    ) -> None:
        self._make_checker = make_checker
        self._lost = lost
        self._time_limit = time_limit
        self.waiting: deque[T] = deque()
        self.current: T | None = None
        self.deadline = 0.0
        self._start()

    def _start(self) -> None:
        # A fresh interpreter: nothing that the parent has loaded or started is shared.
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, self._make_checker), daemon=True)
        self._process.start()
        self._ready = False
        other.close()

    def begin(self) -> None:
        """Send the next waiting task. Its time counts from when the process is ready."""
        self.current = self.waiting.popleft()
        self.deadline = time.monotonic() + (self._time_limit if self._ready else START_LIMIT)
        self.connection.send(self.current)

    def result(self) -> R | None:
        """Return the result of the current task, which has arrived, or the process's death in its stead.

        None if the process has only become ready.
        """
        task = self.current
        assert task is not None
        try:
            received: R | None = self.connection.recv()
        except (EOFError, ConnectionResetError):
            self.current = None
            self._process.join()
            code = self._process.exitcode
            self.connection.close()
            self._start()
            return self._lost(task, f"the process died with exit status {code}")
        if received is None:
            self._ready = True
            self.deadline = time.monotonic() + self._time_limit
        else:
            self.current = None
        return received

    def give_up(self) -> R:
        """Stop a process that takes too long over the current task."""
        task = self.current
        assert task is not None
        ready = self._ready
        self.stop()
        self.current = None
        self._start()
        limit = self._time_limit if ready else START_LIMIT
        return self._lost(task, f"no result within {limit:.0f} seconds")

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self.connection.close()


class WorkerPool(Generic[T, R]):
    """``size`` worker processes; a context manager that ends them.

    ``make_checker``, a function that a fresh interpreter can import, makes what checks the tasks; ``lost`` makes the
    result of a task whose process died or hung, from the reason; ``group`` is the same for tasks that one worker is to
    check; ``time_limit`` is in seconds a task.
    """

    def __init__(
        self,
        size: int,
        make_checker: Callable[[], Checks[T, R]],
        lost: Callable[[T, str], R],
        group: Callable[[T], Hashable],
        time_limit: float = TIME_LIMIT,
    ) -> None:
        self._group = group
        self._workers = [_Worker(make_checker, lost, time_limit) for _ in range(size)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.stop()

    def run(self, tasks: Iterable[T]) -> Iterator[R]:
        """Yield the result of every task, as they come. Consecutive tasks of one group stay with one worker."""
        batches = (list(batch) for _, batch in groupby(tasks, key=self._group))
        while True:
            for worker in self._workers:
                if worker.current is None and not worker.waiting:
                    worker.waiting.extend(next(batches, ()))
                if worker.current is None and worker.waiting:
                    worker.begin()
            busy = {worker.connection: worker for worker in self._workers if worker.current is not None}
            if not busy:
                return
            for ready in wait(list(busy), timeout=_POLL):
                result = busy.pop(ready).result()  # type: ignore[call-overload]  # wait() gives back what it was given
                if result is not None:
                    yield result
            for worker in busy.values():
                if time.monotonic() > worker.deadline:
                    yield worker.give_up()


def _crashed(task: Task, reason: str) -> Result:
    return Result(task, Status.CRASHED, reason)


class Pool(WorkerPool[Task, Result]):
    """Worker processes that check cases. Tasks of one file stay with one worker, which reads the file once."""

    def __init__(
        self, size: int, make_checker: Callable[[], Checks[Task, Result]] = Checker, time_limit: float = TIME_LIMIT
    ) -> None:
        super().__init__(size, make_checker, _crashed, lambda task: task.ref.path, time_limit)

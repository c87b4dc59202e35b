"""Runs of a tiny net without states, whose inputs and outputs stay bound to memory.

Much of such a run converts arrays to values of onnxruntime and allocates outputs. Runs on arrays of the shapes of two
runs before need neither: inputs are copied to memory that is bound, and outputs are written to those of an earlier run
that nobody refers to any more. Two sets of outputs are in use in most programs: that in the workspace, and the next.
"""

from __future__ import annotations

import operator
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np

from caffe2_backend.runtime.program.states.feeds import COPIED
from caffe2_backend.runtime.sessions.session import Binding, Session, has_sized_outputs
from caffe2_backend.runtime.values import Array, Tensor
from caffe2_bridge.diagnostics import RunError

# The bytes of a set of outputs up to which one is kept.
_SMALL: Final = 1 << 20
_MAXIMUM_SETS: Final = 3

_Kind = tuple[tuple[int, ...], np.dtype[Any]]  # shape and element type


class _Set:
    """Outputs in memory of their own."""

    __slots__ = ("_arrays", "_binding", "_own")

    def __init__(self, session: Session, inputs: Mapping[str, Any], like: Mapping[str, _Kind]) -> None:
        self._binding = Binding(session)
        for name, ort in inputs.items():
            self._binding.bind_input_value(name, ort)
        self._arrays: list[Array] = []
        for name, (shape, dtype) in like.items():
            ort, memory = session.buffer(shape, dtype)
            self._binding.bind_output(name, ort)
            self._arrays.append(memory)
        del memory
        self._own = list(map(sys.getrefcount, self._arrays))

    def is_free(self) -> bool:
        """Whether nothing else refers to the outputs."""
        return all(map(operator.le, map(sys.getrefcount, self._arrays), self._own))

    def run(self) -> list[Array]:
        """Run once: the outputs. Raises RunError if the run fails."""
        self._binding.run_only()
        return self._arrays.copy()


class BoundRuns:
    """Runs of a session on the host on arrays of the shapes of earlier runs.

    Args:
        session: the session, whose inputs and outputs are tensors of numbers.
        inputs: its inputs, in the order of the arrays of a run.
        outputs: its outputs, in the order of the results.
    """

    __slots__ = (
        "_buffers", "_failed", "_inputs", "_like", "_lock", "_outputs", "_session", "_sets", "_shapes", "_values"
    )  # fmt: skip

    def __init__(self, session: Session, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        # None once it shows that outputs may have other sizes in another run on inputs of the same shapes.
        self._session: Session | None = session
        self._inputs = inputs
        self._outputs = outputs
        self._lock = threading.Lock()
        self._shapes: list[tuple[int, ...]] = []  # of the inputs of the last run without bound outputs
        self._buffers: list[Array] = []  # the memory of the inputs, once two runs had the same shapes
        self._values: dict[str, Any] = {}  # onnxruntime's values that share it
        self._like: dict[str, _Kind] = {}  # the outputs
        self._sets: list[_Set] = []
        self._failed = False

    def run(self, arrays: Collection[Array]) -> list[Array] | None:
        """Run once: the outputs; None, and nothing has run, if there is no memory for them, or the run fails.

        ``arrays`` have the element types of earlier runs.
        """
        if not self._like or not self._lock.acquire(blocking=False):
            return None
        self._failed = False
        try:
            free = self._free_set()
            if free is None:
                return None
            for buffer, array in zip(self._buffers, arrays, strict=True):
                if array.shape != buffer.shape:
                    return None
                buffer[...] = array  # as np.copyto, in less time
            return free.run()
        except RunError:
            self._failed = True
            return None  # the caller runs it again, for the error with the names of the net
        finally:
            self._lock.release()

    def _free_set(self) -> _Set | None:
        for each in self._sets:
            if each.is_free():
                return each
        if len(self._sets) == _MAXIMUM_SETS or not self._like or self._session is None:
            return None
        self._sets.append(_Set(self._session, self._values, self._like))
        return self._sets[-1]

    def learn(self, arrays: Collection[Array], results: Collection[Tensor]) -> None:
        """Take the shapes of a run without bound outputs: if they are those of the run before, others will follow."""
        if self._session is None:
            return
        shapes = [array.shape for array in arrays]
        with self._lock:
            if self._failed:  # where the same run without bound outputs did not
                self._session = None
            elif shapes == self._shapes:
                if not self._like:  # else all memory is in use
                    self._allocate(self._session, arrays, results)
                return
            self._shapes = shapes
            self._buffers, self._values, self._like, self._sets = [], {}, {}, []

    def _allocate(self, session: Session, arrays: Collection[Array], results: Collection[Tensor]) -> None:
        if not has_sized_outputs(session):
            self._session = None
            return
        found = [result for result in results if isinstance(result, np.ndarray)]
        if len(found) == len(results) and _fits(arrays, found):
            self._like = {name: (array.shape, array.dtype) for name, array in zip(self._outputs, found, strict=True)}
            pairs = [session.buffer(array.shape, array.dtype) for array in arrays]
            self._values = {name: ort for name, (ort, _) in zip(self._inputs, pairs, strict=True)}
            self._buffers = [memory for _, memory in pairs]


def _fits(arrays: Collection[Array], results: Collection[Array]) -> bool:
    """Whether the inputs are small enough to be copied, and the outputs to be kept."""
    numeric = all(array.dtype.kind in "fiub" for array in (*arrays, *results))
    copied = all(array.nbytes <= COPIED for array in arrays)
    return numeric and copied and sum(result.nbytes for result in results) <= _SMALL

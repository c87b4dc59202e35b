"""Small states that stay in onnxruntime's memory from step to step, so that no array is converted between steps.

A set of buffers holds the states, and the other outputs of static shapes, as a step leaves them. A step reads one set
and writes another: inputs and outputs never share memory, so that this is safe for every graph. Three sets are in use
in most programs: that of the workspace, that which deferred blobs of the last step would be computed from, and the
next. The first step runs without buffers; its outputs show which have the shapes that the model declares.

A set is written only if nobody else can see it: nothing but its own record refers to its arrays. A step whose states
are not those of a set, because a blob was fed or another net wrote it, starts with copies of them. Feeds are copied
into buffers, too: the bindings refer to no value of others.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from caffe2_backend.runtime.sessions import Binding, Session
from caffe2_backend.runtime.values import Array

# The bytes of a set of buffers up to which it is worth it: each of the sets takes as much memory.
SMALL: Final = 1 << 20
# The states from which on it is worth it: fewer are converted in less time than it takes to bind the other values.
FEWEST: Final = 8
_MAXIMUM_SETS: Final = 4


class _Set:
    """Buffers for some outputs, in order: onnxruntime's values, and the arrays of the same memory."""

    def __init__(self, session: Session, like: Sequence[Array]) -> None:
        made = [session.buffer(array.shape, array.dtype) for array in like]
        self.orts = [ort for ort, _ in made]
        self.arrays: list[Array] = [array for _, array in made]
        del made
        self._own = self._references()

    def _references(self) -> int:
        return max(map(sys.getrefcount, self.arrays))

    def is_free(self) -> bool:
        """Whether nothing else refers to the arrays."""
        return self._references() <= self._own


class RotatingStates:
    """Runs steps of one session with states, and other outputs of static shapes, in buffers; one run at a time.

    Args:
        session: the session, on the host, whose inputs and outputs are tensors of numbers.
        states: graph outputs by input.
    """

    def __init__(self, session: Session, states: Mapping[str, str]) -> None:
        self._session = session
        self.states = frozenset(states)
        self._pairs = dict(states)
        self._fed = [name for name in session.inputs if name not in states]
        self._like: list[Array] | None = None  # an array for each output that has a buffer; None before the first run
        self._kept: list[str] = []
        self._other: list[str] = []
        self._states: list[tuple[str, int]] = []
        self._sets: list[_Set] = []
        self._feeds: dict[str, tuple[Any, Array]] = {}
        self._bindings: dict[tuple[int, int], Binding] = {}
        self._memory: set[int] = set()
        self._current = 0
        self._lock = threading.Lock()

    def run(self, given: Mapping[str, Any]) -> list[Array] | None:
        """Run once: the graph's outputs, in order; None, and nothing has run, if there are no buffers for it.

        Raises RunError if the run fails; no state has changed then.
        """
        with self._lock:
            if self._like is None:
                return self._begin(given)
            source = self._source(given)
            target = None if source is None else self._free(source)
            if source is None or target is None:
                return None
            binding = self._bindings.get((source, target))
            if binding is None:
                binding = self._bindings[source, target] = self._bind(source, target)
            for name in self._fed:
                binding.bind_input_value(name, self._feed(name, given[name]))
            for name in self._other:
                binding.bind_output(name, None)
            orts = binding.run_from(len(self._kept))
            self._current = target
            found = dict(zip(self._kept, self._sets[target].arrays, strict=True))
            for name, ort in zip(self._other, orts, strict=True):
                found[name] = self._value(ort)
            return [found[name] for name in self._session.outputs]

    def holds(self, given: Mapping[str, Any]) -> bool:
        """Whether the states are the arrays that the last step wrote to buffers."""
        if not self._sets:
            return False
        arrays = self._sets[self._current].arrays
        return all(given.get(name) is arrays[i] for name, i in self._states)

    def _begin(self, given: Mapping[str, Any]) -> list[Array]:
        """Run without buffers, and find out which outputs may have them: none if not all states may."""
        values = self._session.run_list({name: given[name] for name in self._session.inputs})
        static = self._session.static_outputs()
        kept = {
            name: value
            for name, value in zip(self._session.outputs, values, strict=True)
            if static.get(name) == value.shape and value.size
        }
        self._like = []
        fits = all(
            output in kept and kept[output].shape == given[name].shape and kept[output].dtype == given[name].dtype
            for name, output in self._pairs.items()
        )
        if fits and len(self._pairs) >= FEWEST and sum(value.nbytes for value in kept.values()) <= SMALL:
            self._like = [np.empty_like(value) for value in kept.values()]
            self._kept = list(kept)
            self._other = [name for name in self._session.outputs if name not in kept]
            self._states = [(name, self._kept.index(output)) for name, output in self._pairs.items()]
        return values

    def _source(self, given: Mapping[str, Any]) -> int | None:
        """The set that holds the given states, which are copied there if none does; None if that is not possible."""
        if self.holds(given):
            return self._current
        if not self._like or any(given[name].shape != self._like[i].shape for name, i in self._states):
            return None
        source = self._free(None)
        if source is not None:
            arrays = self._sets[source].arrays
            for name, i in self._states:
                np.copyto(arrays[i], given[name])
        return source

    def _free(self, source: int | None) -> int | None:
        """A set, other than the source, that may be written; None if all are in use."""
        for i, buffers in enumerate(self._sets):
            if i != source and buffers.is_free():
                return i
        if len(self._sets) == _MAXIMUM_SETS or self._like is None:
            return None
        self._sets.append(_Set(self._session, self._like))
        self._memory.update(ort.data_ptr() for ort in self._sets[-1].orts)
        return len(self._sets) - 1

    def _bind(self, source: int, target: int) -> Binding:
        binding = Binding(self._session)
        for name, i in self._states:
            binding.bind_input_value(name, self._sets[source].orts[i])
        for name, ort in zip(self._kept, self._sets[target].orts, strict=True):
            binding.bind_output(name, ort)
        return binding

    def _feed(self, name: str, value: Array) -> Any:
        """Copy an input that is not a state into its buffer, which is replaced if its size has changed."""
        found = self._feeds.get(name)
        if found is None or found[1].shape != value.shape:
            found = self._feeds[name] = self._session.buffer(value.shape, value.dtype)
        np.copyto(found[1], value)
        return found[0]

    def _value(self, ort: Any) -> Array:
        """An output without a buffer; a copy if it is a view of a buffer: references to that would not show it."""
        array: Array = ort.numpy()
        pointer = ort.data_ptr()
        if pointer in self._memory or any(pointer == feed.data_ptr() for feed, _ in self._feeds.values()):
            return array.copy()
        return array

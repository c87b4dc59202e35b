"""Runs of a tiny net whose inputs and outputs stay bound to memory, so that no array is converted between runs.

A set of buffers holds the outputs, among them the states, as a run leaves them. A step reads the states of one set and
writes another: inputs and outputs never share memory, so that this is safe for every graph. Three sets are in use in
most programs: that of the workspace, that which deferred blobs of the last step would be computed from, and the next.
The first runs are made without buffers; their outputs show which have shapes that stay. The others run in a session
whose updates of states are joined, where that saves nodes (see ``joined_updates``).

A set is written only if nobody else can see it: nothing but its own record refers to its arrays. A step whose states
are not those of a set, because a blob was fed or another net wrote it, starts with copies of them. Small feeds are
copied into buffers, too; others are bound, and not written.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import numpy as np

from caffe2_backend.runtime.blobs.burst import ONCE, Burst
from caffe2_backend.runtime.program.buffers.buffer_set import BufferSet, StepSession
from caffe2_backend.runtime.program.buffers.feeds import COPIED, Feeds
from caffe2_backend.runtime.sessions.session import Binding, Session
from caffe2_backend.runtime.values import Array
from caffe2_bridge.diagnostics import RunError

# The bytes of a set of buffers up to which it is worth it, of a net with states and of another one: each of the sets
# takes as much memory.
SMALL: Final = 1 << 22
_SMALL_OUTPUTS: Final = 1 << 20
# Of a burst around which loops run: what blobs of the workspace are and what its deferred ones are computed from, what
# those of the last step would be computed from, and what this step reads and writes.
_MAXIMUM_SETS: Final = 5
_NO_SET: Final = -1

# The outputs of a run, of a burst those of its last step, and the inputs of that.
Ran = tuple[Mapping[str, Array], Mapping[str, Any]]


class BufferPool:
    """Runs a net in buffers, one run at a time, where its outputs have the shapes of earlier ones.

    Args:
        session: the session, on the host, whose inputs and outputs are tensors of numbers.
        states: graph outputs by input; of a net without, buffers are for one combination of shapes of its inputs.
        blobs: by graph output, those that a run returns.
        inputs: blobs by graph input.
        make_step_session: makes what all runs in buffers run in.
    """

    def __init__(
        self,
        session: Session,
        states: Mapping[str, str],
        blobs: Mapping[str, str],
        inputs: Mapping[str, str],
        make_step_session: Callable[[], StepSession] | None = None,
    ) -> None:
        self._session = session
        self._make_step_session = make_step_session
        self._step_session = StepSession(session)
        self._inputs = dict(inputs)
        self._pairs = dict(states)
        self._states = [inputs[name] for name in states]
        self._feeds = Feeds(session, {name: inputs[name] for name in session.inputs if name not in states})
        self._names = {name: blobs[name] for name in session.outputs if name in blobs}
        self._outputs = list(self._names)
        self._blobs = list(self._names.values())
        self._shapes: list[tuple[int, ...]] = []  # of the inputs of the last run without buffers
        self._like: dict[str, Array] = {}  # an array for each output that has a buffer
        self._unbuffered: list[str] = []  # the other outputs, and below the blobs that they are
        self._other: list[str] = []
        self._sets: list[BufferSet] = []
        self._bindings: dict[tuple[int, int], Binding] = {}
        self._memory: set[int] = set()
        self._current = 0
        self._is_off = False  # whether it has shown that there can be no buffers
        self._lock = threading.Lock()

    def returning(self, outputs: Collection[str]) -> BufferPool:
        """Return a pool for runs that return some of the graph's outputs; one with states returns them all."""
        if self._pairs:
            return self
        return BufferPool(self._session, {}, {name: self._names[name] for name in outputs}, self._inputs)

    @property
    def has_buffers(self) -> bool:
        """Whether runs are made in buffers: then states keep their types and shapes."""
        return bool(self._like)

    def run(self, given: Mapping[str, Any], burst: Burst = ONCE) -> Ran | None:
        """Run a burst of steps, or one if there are no states; None, and nothing has run, if another thread runs it.

        Raises RunError if the first step fails; no state has changed then. If another fails, the burst ends before it.
        """
        if self._is_off or not self._lock.acquire(blocking=False):
            return None
        try:
            failed = False
            if self._like:
                try:
                    ran = self._run_in_buffers(given, burst)
                except RunError:
                    failed = True
                else:
                    if ran is not None:
                        return ran
            feed = {name: given[blob] for name, blob in self._inputs.items()}
            # The other runs have a session of their own, with as much memory.
            values = self._session.run_list(feed, self._outputs, release=self._make_step_session is not None)
            if failed:
                self._turn_off()
            elif not self._like:
                self._learn(given, values)
            return dict(zip(self._blobs, values, strict=True)), given
        finally:
            self._lock.release()

    def _run_in_buffers(self, given: Mapping[str, Any], burst: Burst) -> Ran | None:
        source = self._source(given) if self._pairs else _NO_SET
        target = None if source is None else self._free(source)
        if source is None or target is None:
            return None
        if self._feeds.set(given):
            self._bindings.clear()
            if not self._pairs:  # outputs have other shapes, too
                self._forget()
                return None
        binding = self._binding(source, target)
        orts: list[Any] = []
        if self._unbuffered:
            orts = self._run_unbuffered(binding)
        else:
            binding.run_only()
        if burst is not ONCE and self._pairs:
            last, source, target = self._more_steps(burst, source, target)
            orts = last or orts
            if burst.steps > 1:
                given = {**given, **dict(zip(self._states, self._sets[source].states, strict=True))}
        self._current = target
        # A copy, which refers to the arrays: another thread may run this net before they are in a workspace.
        found = self._sets[target].results.copy()
        if self._other:
            found.update(zip(self._other, map(self._value, orts), strict=True))
        if self._feeds.direct:
            self._feeds.direct.clear()  # refers to no feed any more
        return found, given

    def _more_steps(self, burst: Burst, source: int, target: int) -> tuple[list[Any], int, int]:
        """Run the other steps of a burst: the outputs without buffers, and what the last step read and wrote."""
        orts: list[Any] = []
        if not burst.goes_on():
            return orts, source, target
        spare = self._free(target)
        if spare is None:
            burst.take_back()
            return orts, source, target
        this, other = self._binding(target, spare), self._binding(spare, target)
        while True:
            try:
                orts = self._run_unbuffered(this)
            except RunError:
                burst.take_back()
                break
            source, target, spare = target, spare, target
            if not burst.goes_on():
                break
            this, other = other, this
        return orts, source, target

    def _binding(self, source: int, target: int) -> Binding:
        """Return the binding of a step from one set to another, with the feeds of this run."""
        binding = self._bindings.get((source, target))
        if binding is None:
            binding = self._bindings[source, target] = self._bind(source, target)
        if self._feeds.direct:
            self._feeds.bind_direct(binding)
        return binding

    def _run_unbuffered(self, binding: Binding) -> list[Any]:
        """Run once: the outputs without buffers, which are new."""
        for name in self._unbuffered:
            binding.bind_output(name, None)
        return binding.run_from(len(self._sets[0].outputs))

    def _holds(self, given: Mapping[str, Any]) -> bool:
        """Whether the states are the arrays that the last step wrote to buffers."""
        if not self._sets:
            return False
        return all(map(operator.is_, map(given.get, self._states), self._sets[self._current].states))

    # Which outputs have buffers

    def _learn(self, given: Mapping[str, Any], values: list[Array]) -> None:
        """Find out from a run which outputs may have buffers.

        Of a net with states, those of static shapes; there are none if not all states may. Of another, those whose
        shapes follow from the inputs': if these are the same in two runs in a row, others will follow.
        """
        results = dict(zip(self._outputs, values, strict=True))
        if any(isinstance(value, list) for value in values):  # a sequence
            self._turn_off()
            return
        if self._pairs:
            static = self._session.static_outputs()
            like = {name: value for name, value in results.items() if static.get(name) == value.shape}
            like = {name: value for name, value in like.items() if _is_numeric(value)}
            states = zip(self._states, self._pairs.values(), strict=True)
            fits = all(output in like and _are_alike(like[output], given[blob]) for blob, output in states)
            if not fits or _total_bytes(like) > SMALL:
                self._turn_off()
                return
        else:
            arrays = [given[blob] for blob in self._inputs.values()]
            before, self._shapes = self._shapes, [array.shape for array in arrays]
            if self._shapes != before:
                return
            small = all(array.nbytes <= COPIED for array in arrays) and _total_bytes(results) <= _SMALL_OUTPUTS
            sized = self._session.sized_outputs() if small else frozenset()
            like = {name: value for name, value in results.items() if name in sized and _is_numeric(value)}
            if not sized.intersection(results):
                self._turn_off()
                return
            self._feeds.set(given)  # so that other shapes show
        self._like = {name: np.empty_like(value) for name, value in like.items()}
        self._unbuffered = [name for name in self._outputs if name not in like]
        self._other = [blob for name, blob in self._names.items() if name not in like]

    def _forget(self) -> None:
        self._like, self._sets, self._shapes, self._current = {}, [], [], 0
        self._memory.clear()

    def _turn_off(self) -> None:
        self._is_off = True
        self._make_step_session = None
        self._forget()
        self._bindings.clear()

    # Sets

    def _source(self, given: Mapping[str, Any]) -> int | None:
        """Return the set that holds the given states, copied there if none does; None if that is not possible."""
        if self._holds(given):
            return self._current
        pairs = list(zip(self._states, self._pairs.values(), strict=True))
        if any(given[blob].shape != self._like[output].shape for blob, output in pairs):
            return None
        source = self._free(None)
        if source is not None:
            arrays = self._sets[source].arrays
            for blob, output in pairs:
                np.copyto(arrays[output], given[blob])
        return source

    def _free(self, source: int | None) -> int | None:
        """Return a set, other than the source, that may be written; None if all are in use."""
        # They are in use in turn: the one after the current set is the first to be free.
        count = len(self._sets)
        for i in range(self._current + 1, self._current + 1 + count):
            if i % count != source and self._sets[i % count].is_free():
                return i % count
        if count == _MAXIMUM_SETS:
            return None
        if self._make_step_session is not None:
            self._step_session, self._make_step_session = self._make_step_session(), None
        self._sets.append(BufferSet(self._step_session, self._like, self._pairs, self._names))
        self._memory.update(ort.data_ptr() for ort in self._sets[-1].outputs.values())
        return len(self._sets) - 1

    def _bind(self, source: int, target: int) -> Binding:
        binding = Binding(self._step_session.session)
        if source != _NO_SET:
            for name, ort in self._sets[source].inputs.items():
                binding.bind_input_value(name, ort)
        self._feeds.bind(binding, self._step_session.session.inputs)
        for name, ort in self._sets[target].outputs.items():
            binding.bind_output(name, ort)
        return binding

    def _value(self, ort: Any) -> Array:
        """Return an output without a buffer; a copy if it is a buffer's view: references to that would not show it."""
        array: Array = ort.numpy()
        pointer = ort.data_ptr()
        if pointer in self._memory or pointer in self._feeds.addresses():
            return array.copy()
        return array


def _is_numeric(value: Array) -> bool:
    return value.dtype.kind in "fiub" and value.size > 0


def _are_alike(value: Array, other: Array) -> bool:
    return value.shape == other.shape and value.dtype == other.dtype


def _total_bytes(values: Mapping[str, Array]) -> int:
    return sum(value.nbytes for value in values.values())

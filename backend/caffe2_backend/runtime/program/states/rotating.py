"""Small states that stay in onnxruntime's memory from step to step, so that no array is converted between steps.

A set of buffers holds the states, and the other outputs of static shapes, as a step leaves them. A step reads one set
and writes another: inputs and outputs never share memory, so that this is safe for every graph. Three sets are in use
in most programs: that of the workspace, that which deferred blobs of the last step would be computed from, and the
next. The first step runs without buffers; its outputs show which have the shapes that the model declares. The others
run in a session whose updates of states are joined, where that saves nodes (see ``joined_updates``).

A set is written only if nobody else can see it: nothing but its own record refers to its arrays. A step whose states
are not those of a set, because a blob was fed or another net wrote it, starts with copies of them. Small feeds are
copied into buffers, too; others are bound, and not written.
"""

from __future__ import annotations

import operator
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from caffe2_backend.runtime.blobs.burst import ONCE, Burst
from caffe2_backend.runtime.program.states.feeds import Feeds
from caffe2_backend.runtime.program.states.joined_updates import Buffer
from caffe2_backend.runtime.sessions.session import Binding, Session
from caffe2_backend.runtime.values import Array
from caffe2_bridge.diagnostics import RunError

# The bytes of a set of buffers up to which it is worth it: each of the sets takes as much memory.
SMALL: Final = 1 << 22
_MAXIMUM_SETS: Final = 4


class Stepper(NamedTuple):
    """A session for all steps but the first, and the buffers that hold several of its states."""

    session: Session
    buffers: tuple[Buffer, ...] = ()


class Step(NamedTuple):
    """The outputs of the last step of a burst, by blob, and its inputs."""

    values: Mapping[str, Array]
    given: Mapping[str, Any]


class _Set:
    """Buffers for some outputs: arrays, and onnxruntime's values that share their memory.

    Attributes:
        arrays: by output of the original graph.
        outputs: onnxruntime's values, by output of the session.
        inputs: those that inputs of the session which are states are bound to.
        states: the arrays of the states, in order.
        results: the arrays by blob.
    """

    def __init__(
        self, stepper: Stepper, like: Mapping[str, Array], states: Mapping[str, str], blobs: Mapping[str, str]
    ) -> None:
        session = stepper.session
        self.arrays: dict[str, Array] = {}
        self.outputs: dict[str, Any] = {}
        self.inputs: dict[str, Any] = {}
        joined = {output for buffer in stepper.buffers for _, output, _ in buffer.members}
        for name, array in like.items():
            if name not in joined:
                self.outputs[name], self.arrays[name] = session.buffer(array.shape, array.dtype)
        for name, output in states.items():
            if name in session.inputs and output not in joined:
                self.inputs[name] = self.outputs[output]
        for buffer in stepper.buffers:
            self._add_members(session, buffer)
        self.states = [self.arrays[output] for output in states.values()]
        self.results = {blobs[name]: self.arrays[name] for name in like}
        self._own = self._references()

    def _add_members(self, session: Session, buffer: Buffer) -> None:
        rows, *tail = session.static_outputs()[buffer.output]
        ort, memory = session.buffer((rows, *tail), buffer.dtype)
        self.outputs[buffer.output] = ort
        if buffer.input in session.inputs:
            self.inputs[buffer.input] = ort
        offset = 0
        for name, output, shape in buffer.members:
            # Not a slice: views of a slice would not refer to it, but to the whole array.
            part = np.ndarray(shape, buffer.dtype, memory.data, offset)
            self.arrays[output] = part
            if name in session.inputs:
                self.inputs[name] = session.shared(np.ndarray(shape, buffer.dtype, memory.data, offset))
            offset += part.nbytes

    def _references(self) -> list[int]:
        return list(map(sys.getrefcount, self.arrays.values()))

    def is_free(self) -> bool:
        """Whether nothing else refers to the arrays."""
        return all(map(operator.le, self._references(), self._own))


class RotatingStates:
    """Runs steps of one net with states, and other outputs of static shapes, in buffers; one run at a time.

    Args:
        session: the session, on the host, whose inputs and outputs are tensors of numbers.
        states: graph outputs by input.
        blobs: by graph output.
        inputs: blobs by graph input.
        make_stepper: makes what all steps but the first run in.
    """

    def __init__(
        self,
        session: Session,
        states: Mapping[str, str],
        blobs: Mapping[str, str],
        inputs: Mapping[str, str],
        make_stepper: Callable[[], Stepper] | None = None,
    ) -> None:
        self._session = session
        self._make_stepper = make_stepper
        self._stepper = Stepper(session)
        self._inputs = dict(inputs)
        self._pairs = dict(states)
        self._states = [inputs[name] for name in states]
        self._feeds = Feeds(session, {name: inputs[name] for name in session.inputs if name not in states})
        self._names = {name: blobs[name] for name in session.outputs}
        self._blobs = list(self._names.values())
        self._like: dict[str, Array] | None = None  # an array for each output that has a buffer; None before a run
        self._unbuffered: list[str] = []  # the other outputs, and below the blobs that they are
        self._other: list[str] = []
        self._sets: list[_Set] = []
        self._bindings: dict[tuple[int, int], Binding] = {}
        self._memory: set[int] = set()
        self._current = 0
        self._lock = threading.Lock()

    def run(self, given: Mapping[str, Any], burst: Burst = ONCE) -> Step | None:
        """Run a burst of steps; None, and nothing has run, if there are no buffers for it.

        Raises RunError if the first step fails; no state has changed then. If another fails, the burst ends before it.
        """
        with self._lock:
            if self._like is None:
                return Step(dict(zip(self._blobs, self._begin(given), strict=True)), given)
            if not self._like:
                return None
            source = self._source(given)
            target = None if source is None else self._free(source)
            if source is None or target is None:
                return None
            if self._feeds.set(given):
                self._bindings.clear()
            orts = self._step(source, target)
            last, source, target = self._more_steps(burst, source, target)
            self._current = target
            # A copy, which refers to the arrays: another thread may run this net before they are in a workspace.
            found = dict(self._sets[target].results)
            if self._other:
                found.update(zip(self._other, map(self._value, last or orts), strict=True))
            if burst.steps > 1:
                given = {**given, **dict(zip(self._states, self._sets[source].states, strict=True))}
            self._feeds.release()
            return Step(found, given)

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
                orts = self._run_bound(this)
            except RunError:
                burst.take_back()
                break
            source, target, spare = target, spare, target
            if not burst.goes_on():
                break
            this, other = other, this
        return orts, source, target

    def _step(self, source: int, target: int) -> list[Any]:
        """Run once from one set to another: the outputs without buffers."""
        return self._run_bound(self._binding(source, target))

    def _binding(self, source: int, target: int) -> Binding:
        """The binding of a step from one set to another, with the feeds of this run."""
        binding = self._bindings.get((source, target))
        if binding is None:
            binding = self._bindings[source, target] = self._bind(source, target)
        self._feeds.bind_direct(binding)
        return binding

    def _run_bound(self, binding: Binding) -> list[Any]:
        """Run once: the outputs without buffers, which are new."""
        if not self._unbuffered:
            binding.run_only()
            return []
        for name in self._unbuffered:
            binding.bind_output(name, None)
        return binding.run_from(len(self._sets[0].outputs))

    @property
    def has_buffers(self) -> bool:
        """Whether steps run in buffers: then states keep their shapes."""
        return bool(self._like)

    def _holds(self, given: Mapping[str, Any]) -> bool:
        """Whether the states are the arrays that the last step wrote to buffers."""
        if not self._sets:
            return False
        return all(map(operator.is_, map(given.get, self._states), self._sets[self._current].states))

    def _begin(self, given: Mapping[str, Any]) -> list[Array]:
        """Run without buffers, and find out which outputs may have them: none if not all states may."""
        values = self._session.run_list({name: given[blob] for name, blob in self._inputs.items()})
        static = self._session.static_outputs()
        kept = {
            name: value
            for name, value in zip(self._session.outputs, values, strict=True)
            if static.get(name) == value.shape and value.size
        }
        fits = all(
            output in kept and kept[output].shape == given[blob].shape and kept[output].dtype == given[blob].dtype
            for blob, output in zip(self._states, self._pairs.values(), strict=True)
        )
        self._like = {}
        if fits and sum(value.nbytes for value in kept.values()) <= SMALL:
            self._like = {name: np.empty_like(value) for name, value in kept.items()}
            self._unbuffered = [name for name in self._session.outputs if name not in kept]
            self._other = [blob for name, blob in self._names.items() if name not in kept]
        else:
            self._make_stepper = None
        return values

    def _source(self, given: Mapping[str, Any]) -> int | None:
        """The set that holds the given states, which are copied there if none does; None if that is not possible."""
        if self._holds(given):
            return self._current
        like = self._like or {}
        pairs = list(zip(self._states, self._pairs.values(), strict=True))
        if any(given[blob].shape != like[output].shape for blob, output in pairs):
            return None
        source = self._free(None)
        if source is not None:
            arrays = self._sets[source].arrays
            for blob, output in pairs:
                np.copyto(arrays[output], given[blob])
        return source

    def _free(self, source: int | None) -> int | None:
        """A set, other than the source, that may be written; None if all are in use."""
        # They are in use in turn: the one after the current set is the first to be free.
        count = len(self._sets)
        for i in range(self._current + 1, self._current + 1 + count):
            if i % count != source and self._sets[i % count].is_free():
                return i % count
        if count == _MAXIMUM_SETS or self._like is None:
            return None
        if self._make_stepper is not None:
            self._stepper, self._make_stepper = self._make_stepper(), None
        self._sets.append(_Set(self._stepper, self._like, self._pairs, self._names))
        self._memory.update(ort.data_ptr() for ort in self._sets[-1].outputs.values())
        return len(self._sets) - 1

    def _bind(self, source: int, target: int) -> Binding:
        binding = Binding(self._stepper.session)
        for name, ort in self._sets[source].inputs.items():
            binding.bind_input_value(name, ort)
        self._feeds.bind(binding, self._stepper.session.inputs)
        for name, ort in self._sets[target].outputs.items():
            binding.bind_output(name, ort)
        return binding

    def _value(self, ort: Any) -> Array:
        """An output without a buffer; a copy if it is a view of a buffer: references to that would not show it."""
        array: Array = ort.numpy()
        pointer = ort.data_ptr()
        if pointer in self._memory or pointer in self._feeds.addresses():
            return array.copy()
        return array

"""States that stay in one buffer from step to step: a session whose inputs and outputs of states are the same memory.

A buffer is overwritten only if nobody else can see it, so that values in a workspace never change after they were
handed out: it must be what the last step itself returned, and nothing but the workspace, and this run, may refer to it.
Otherwise onnxruntime returns the state in a new buffer, which is the resident one from then on.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import onnx
import onnx_ir as ir

from caffe2_backend.runtime.burst import ONCE, Burst
from caffe2_backend.runtime.device_names import CPU
from caffe2_backend.runtime.program.feeds import Feeds
from caffe2_backend.runtime.program.in_place import order_readers, scattered, updated_in_place
from caffe2_backend.runtime.program.row_scatters import scatter_rows
from caffe2_backend.runtime.session_options import SessionOptions
from caffe2_backend.runtime.sessions import Binding, Session
from caffe2_backend.runtime.values import Array, DeviceTensor
from caffe2_bridge.diagnostics import RunError

# States from this size on are worth it: below, a copy takes less time than the rest of a step.
LARGE: Final = 1 << 14


class _Buffer(NamedTuple):
    """The value that a step returned, and onnxruntime's value of the same memory."""

    value: Array | DeviceTensor
    ort: Any


def _references(buffer: _Buffer) -> int:
    return sys.getrefcount(buffer.value)


# What counts a buffer's value that nothing else refers to: this depends on the version of Python.
_OWN_REFERENCES: Final = _references(_Buffer(DeviceTensor.__new__(DeviceTensor), None))


class ResidentStates:
    """Runs steps of one session with states in place; one run at a time.

    Args:
        session: the session.
        states: graph outputs by input.
        copied: graph outputs by input of the other states, which are not updated in place.
    """

    def __init__(self, session: Session, states: Mapping[str, str], copied: Mapping[str, str]) -> None:
        self._session = session
        fed = {name: name for name in session.inputs if name not in states and name not in copied}
        self._feeds = Feeds(session, fed, None if session.device == CPU else -1)
        self._states = dict(states)
        self._copied = [(name, session.outputs.index(output)) for name, output in copied.items()]
        input_of = {output: name for name, output in states.items()}
        self._outputs = [(output, input_of.get(output)) for output in session.outputs]
        static = session.static_outputs()
        self._of_any_size = [output for output, state in self._outputs if state is None and output not in static]
        self._buffers: dict[str, _Buffer] = {}
        self._binding = Binding(session)
        self._lock = threading.Lock()

    def run(
        self, given: Mapping[str, Array | DeviceTensor], held: int, burst: Burst = ONCE
    ) -> list[Array | DeviceTensor]:
        """Run a burst of steps, or one if not all states are in place: the graph's outputs, in order.

        Args:
            given: the inputs, which are overwritten where they are states that may be.
            held: how many references the caller holds to the value of each input. A state to which there are more is
                not overwritten; none is if this is 0.
            burst: the steps.

        Raises RunError if a step fails; states may have changed then, in part.
        """
        with self._lock:
            binding = self._binding
            in_place = {name for name in self._states if self._is_own(name, given, held)}
            for name in in_place:
                binding.bind_input_value(name, self._buffers[name].ort)
            for name in (*(self._states.keys() - in_place), *(name for name, _ in self._copied)):
                binding.bind_input(name, given[name])
            if self._feeds.set(given):
                self._feeds.bind(binding, self._session.inputs)
            self._feeds.bind_direct(binding)
            for output, state in self._outputs:
                binding.bind_output(output, self._buffers[state].ort if state in in_place else None)
            binding.run_only()
            if len(in_place) == len(self._states):
                self._more_steps(burst)
            values = []
            for ort, (_, state) in zip(binding.values(), self._outputs, strict=True):
                if state in in_place:
                    values.append(self._buffers[state].value)
                    continue
                value = binding.value(ort)
                values.append(value)
                if state is not None:
                    self._buffers[state] = _Buffer(value, ort)
            return values

    def _more_steps(self, burst: Burst) -> None:
        """Run the other steps of a burst, of which all states that may be updated in place are."""
        binding = self._binding
        while burst.goes_on():
            values = binding.values() if self._copied else []
            for name, i in self._copied:
                binding.bind_input_value(name, values[i])
            for output in self._of_any_size:  # the others are written over: nobody has seen them yet
                binding.bind_output(output, None)
            binding.run_only()

    def _is_own(self, name: str, given: Mapping[str, Array | DeviceTensor], held: int) -> bool:
        """Whether an input is the resident buffer, and nothing but its record and the caller refer to it."""
        buffer = self._buffers.get(name)
        if not held or buffer is None or buffer.value is not given[name]:
            return False
        return _references(buffer) <= _OWN_REFERENCES + held


def resident_session(
    model: ir.Model, states: Mapping[str, str], device: str, options: SessionOptions
) -> tuple[Session, ResidentStates] | None:
    """A session for the model, and its runs with states that are updated in place; None if there are none.

    Only a net that scatters into a state is worth it: then all states that may be updated in place are.

    Args:
        model: the model.
        states: graph outputs by input.
        device: where it runs.
        options: of the session.

    Raises RunError if onnxruntime cannot load the model.
    """
    if options.cuda_graphs or options.providers or options.optimized or not scattered(model, states):
        return None
    with TemporaryDirectory() as folder:
        path = Path(folder) / "optimized.onnx"
        Session(ir.to_proto(model).SerializeToString(), device, options=replace(options, optimized=str(path)))
        optimized = ir.from_proto(onnx.ModelProto.FromString(path.read_bytes()))
    if device == CPU:
        scatter_rows(optimized, options.threads)
    order_readers(optimized, states)
    safe = updated_in_place(optimized, states)
    if not safe.intersection(scattered(optimized, states)):
        return None
    try:
        session = Session(
            ir.to_proto(optimized).SerializeToString(),
            device,
            options=replace(options, optimization="none", disabled_optimizers=()),
        )
    except RunError:  # a provider that cannot load what it has optimized
        return None
    in_place = {name: output for name, output in states.items() if name in safe}
    copied = {name: output for name, output in states.items() if name not in safe}
    return session, ResidentStates(session, in_place, copied)


def large_states(names: Sequence[str], given: Mapping[str, Any]) -> list[str]:
    """The states of which a copy takes long."""
    return [name for name in names if _bytes(given.get(name)) >= LARGE]


def _bytes(value: Any) -> int:
    if isinstance(value, DeviceTensor):
        size = value.dtype.itemsize
        for dim in value.shape:
            size *= dim
        return int(size)
    return int(getattr(value, "nbytes", 0))

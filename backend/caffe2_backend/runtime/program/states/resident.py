"""States that stay in one buffer from step to step: a session whose inputs and outputs of states are the same memory.

A buffer is overwritten only if nobody else can see it, so that values in a workspace never change after they were
handed out: it must be what the last step itself returned, and nothing but the workspace, and this run, may refer to it.
Otherwise onnxruntime returns the state in a new buffer, which is the resident one from then on.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeGuard

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir.passes.common import NameFixPass

from caffe2_backend.runtime.blobs.burst import ONCE, Burst
from caffe2_backend.runtime.devices.device_names import CPU
from caffe2_backend.runtime.program.buffers.feeds import Feeds
from caffe2_backend.runtime.program.buffers.handed_out import SMALL_OUTPUT, HandedOut, OutputBuffers
from caffe2_backend.runtime.program.states.in_place import order_readers, scattered, updated_in_place
from caffe2_backend.runtime.program.states.row_scatters import scatter_rows
from caffe2_backend.runtime.sessions.session import Binding, InnerSession, Session
from caffe2_backend.runtime.sessions.session_options import SessionOptions
from caffe2_backend.runtime.values import Array, DeviceTensor
from caffe2_bridge.diagnostics import RunError
from caffe2_frontend.interop.files.serialize import to_proto

# States from this size on are worth it: below, a copy takes less time than the rest of a step.
LARGE: Final = 1 << 14


class ResidentStates:
    """Runs steps of one session with states in place; one run at a time.

    Small outputs of static shapes on the host are written to the memory of earlier steps that nobody sees any more.

    Args:
        session: the session.
        states: graph outputs by input.
        copied: graph outputs by input of the other states, which are not updated in place.
    """

    def __init__(self, session: Session, states: Mapping[str, str], copied: Mapping[str, str]) -> None:
        self._session = session
        fed = {name: name for name in session.inputs if name not in states and name not in copied}
        self._feeds = Feeds(session, fed, None if session.device == CPU else -1)
        self._names = tuple(states)
        self._copied = [(name, session.outputs.index(output)) for name, output in copied.items()]
        input_of = {output: name for name, output in states.items()}
        self._outputs = [(output, input_of.get(output)) for output in session.outputs]
        self._static = session.static_outputs()
        # Outputs that a burst allocates anew for each step: nobody sees the others before it ends.
        renewed = {output for output in session.outputs if output not in self._static}.union(copied.values())
        self._renewed = [i for i, output in enumerate(session.outputs) if output in renewed - set(input_of)]
        self._resident: dict[str, HandedOut] = {}
        self._buffers: dict[str, OutputBuffers] = {}
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
            in_place = {name for name in self._names if self._is_own(name, given, held)}
            for name in self._names:
                if name in in_place:
                    binding.bind_input_value(name, self._resident[name].ort)
                else:
                    binding.bind_input(name, given[name])
            for name, _ in self._copied:
                binding.bind_input(name, given[name])
            if self._feeds.set(given):
                self._feeds.bind(binding, self._session.inputs)
            self._feeds.bind_direct(binding)
            bound = self._bind_outputs(in_place)
            binding.run_only()
            if len(in_place) == len(self._names):
                self._more_steps(burst, bound)
            return self._values(bound)

    def _bind_outputs(self, in_place: Collection[str]) -> list[HandedOut | None]:
        """Bind the outputs of a step; what each is bound to, None where that is new memory."""
        bound: list[HandedOut | None] = []
        for output, state in self._outputs:
            memory = None
            if state is not None:
                memory = self._resident[state] if state in in_place else None
            elif output in self._buffers:
                memory = self._buffers[output].take()
            self._binding.bind_output(output, None if memory is None else memory.ort)
            bound.append(memory)
        return bound

    def _more_steps(self, burst: Burst, bound: list[HandedOut | None]) -> None:
        """Run the other steps of a burst, of which all states that may be updated in place are."""
        binding = self._binding
        while burst.goes_on():
            values = binding.values() if self._copied else []
            for name, i in self._copied:
                binding.bind_input_value(name, values[i])
            for i in self._renewed:
                binding.bind_output(self._outputs[i][0], None)
                bound[i] = None
            binding.run_only()

    def _values(self, bound: Sequence[HandedOut | None]) -> list[Array | DeviceTensor]:
        """Return the outputs of the last step, which records those that are new."""
        orts = self._binding.values() if None in bound else []
        values: list[Array | DeviceTensor] = []
        for i, memory in enumerate(bound):
            value = self._new_value(i, orts[i]) if memory is None else memory.value
            values.append(value)
        return values

    def _new_value(self, position: int, ort: Any) -> Array | DeviceTensor:
        """Return an output in new memory."""
        output, state = self._outputs[position]
        value = self._binding.value(ort)
        if state is not None:
            self._resident[state] = HandedOut(value, ort)
        elif self._is_reusable(value, output):
            self._buffers[output] = OutputBuffers(self._session, value)
        return value

    def _is_reusable(self, value: Array | DeviceTensor, output: str) -> TypeGuard[Array]:
        """Whether an output is a small array of numbers, on the host, that has one shape in all steps."""
        if not isinstance(value, np.ndarray) or value.dtype == object or output in self._buffers:
            return False
        return self._static.get(output) == value.shape and 0 < value.nbytes <= SMALL_OUTPUT

    def _is_own(self, name: str, given: Mapping[str, Array | DeviceTensor], held: int) -> bool:
        """Whether an input is the resident value, and nothing but its record and the caller refer to it."""
        memory = self._resident.get(name)
        return bool(held) and memory is not None and memory.value is given[name] and memory.is_free(held)


def resident_session(
    model: ir.Model, states: Mapping[str, str], device: str, options: SessionOptions
) -> tuple[Session, ResidentStates] | None:
    """Return a session for the model, and its runs with states that are updated in place; None if there are none.

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
        InnerSession(to_proto(model).SerializeToString(), device, options=replace(options, optimized=str(path)))
        optimized = ir.from_proto(onnx.ModelProto.FromString(path.read_bytes()))
    NameFixPass()(optimized)  # a fusion names what it makes in a graph and in its bodies alike, which it cannot load
    if device == CPU:
        scatter_rows(optimized, options.threads)
    order_readers(optimized, states)
    safe = updated_in_place(optimized, states)
    if not safe.intersection(scattered(optimized, states)):
        return None
    try:
        session = InnerSession(
            to_proto(optimized).SerializeToString(),
            device,
            options=replace(options, optimization="none", disabled_optimizers=()),
        )
    except RunError:  # a provider that cannot load what it has optimized
        return None
    in_place = {name: output for name, output in states.items() if name in safe}
    copied = {name: output for name, output in states.items() if name not in safe}
    return session, ResidentStates(session, in_place, copied)


def large_states(names: Sequence[str], given: Mapping[str, Any]) -> list[str]:
    """Return the states of which a copy takes long."""
    return [name for name in names if _bytes(given.get(name)) >= LARGE]


def _bytes(value: Any) -> int:
    if isinstance(value, DeviceTensor):
        size = value.dtype.itemsize
        for dim in value.shape:
            size *= dim
        return int(size)
    return int(getattr(value, "nbytes", 0))

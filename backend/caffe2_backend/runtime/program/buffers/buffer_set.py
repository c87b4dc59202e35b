"""Sets of buffers: what a run writes, and the next one may read."""

from __future__ import annotations

import operator
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from caffe2_backend.runtime.sessions.session import Session
from caffe2_backend.runtime.values import Array


@dataclass(frozen=True)
class JoinedBuffer:
    """States in one buffer.

    Attributes:
        input: the input of the joined graph; it has none if no update reads the states.
        output: its output.
        dtype: the element type.
        members: the states: the names of input and output in the original graph, and the shape, in order.
    """

    input: str
    output: str
    dtype: np.dtype[Any]
    members: tuple[tuple[str, str, tuple[int, ...]], ...]


class StepSession(NamedTuple):
    """A session for all runs in buffers, and the buffers that hold several of its states."""

    session: Session
    buffers: tuple[JoinedBuffer, ...] = ()


class BufferSet:
    """Buffers for some outputs: arrays, and onnxruntime's values that share their memory.

    Attributes:
        arrays: by output of the original graph.
        outputs: onnxruntime's values, by output of the session.
        inputs: those that inputs of the session which are states are bound to.
        states: the arrays of the states, in order.
        results: the arrays by blob.
    """

    def __init__(
        self, step_session: StepSession, like: Mapping[str, Array], states: Mapping[str, str], blobs: Mapping[str, str]
    ) -> None:
        session = step_session.session
        self.arrays: dict[str, Array] = {}
        self.outputs: dict[str, Any] = {}
        self.inputs: dict[str, Any] = {}
        joined = {output for buffer in step_session.buffers for _, output, _ in buffer.members}
        for name, array in like.items():
            if name not in joined:
                self.outputs[name], self.arrays[name] = session.buffer(array.shape, array.dtype)
        for name, output in states.items():
            if name in session.inputs and output not in joined:
                self.inputs[name] = self.outputs[output]
        for buffer in step_session.buffers:
            self._add_members(session, buffer)
        self.states = [self.arrays[output] for output in states.values()]
        self.results = {blobs[name]: self.arrays[name] for name in like}
        self._own = list(map(sys.getrefcount, self.arrays.values()))

    def _add_members(self, session: Session, buffer: JoinedBuffer) -> None:
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

    def is_free(self) -> bool:
        """Whether nothing else refers to the arrays."""
        return all(map(operator.le, map(sys.getrefcount, self.arrays.values()), self._own))

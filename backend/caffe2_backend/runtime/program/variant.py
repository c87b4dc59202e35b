"""Variants: a net converted for one kind of inputs, with its session."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from caffe2_backend.runtime.blobs.burst import ONCE, Burst
from caffe2_backend.runtime.program.error_names import renamed
from caffe2_backend.runtime.program.signature import Signature, extent_of
from caffe2_backend.runtime.program.states.resident import ResidentStates
from caffe2_backend.runtime.program.states.rotating import RotatingStates
from caffe2_backend.runtime.sessions.session import Session
from caffe2_backend.runtime.values import DeviceTensor, HostObject, Int8Tensor, Tensor, Value, to_host
from caffe2_bridge.diagnostics import RunError


@dataclass(frozen=True)
class Variant:
    """A net converted for one kind of inputs.

    Attributes:
        session: runs it; None if it computes nothing.
        inputs: the blobs that it reads; ``graph_inputs`` are their names in the session's model, if they differ.
        outputs: the blobs that it returns; ``graph_outputs`` are their names in the session's model.
        quantized: (scale, zero point) of the outputs that are Int8 tensors.
        deferred: blobs that the net writes and a run does not return.
        on_host: whether the session runs on the host.
        resident: runs it with states in place; None if it has none.
        rotating: runs steps with small states in buffers; None if it has none.
        arrays: whether it runs on the host, and all inputs and outputs are arrays of numbers that need no conversion.
        names: the blobs by the names that errors of the session may contain, if they differ.
    """

    session: Session | None
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    quantized: Mapping[str, tuple[float, int]]
    deferred: tuple[str, ...]
    on_host: bool
    arrays: bool
    graph_outputs: list[str]
    graph_inputs: tuple[str, ...] | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    resident: ResidentStates | None = None
    rotating: RotatingStates | None = None

    def returning(self, outputs: Collection[str], writes: Sequence[str]) -> Variant:
        """The variant of the same session that returns some of the outputs only.

        ``writes`` are the blobs that the net writes.
        """
        kept = [pair for pair in zip(self.outputs, self.graph_outputs, strict=True) if pair[0] in outputs]
        returned = dict(kept)
        return replace(
            self,
            outputs=tuple(returned),
            graph_outputs=[*returned.values()],
            quantized={name: how for name, how in self.quantized.items() if name in returned},
            deferred=tuple(name for name in writes if name not in returned),
        )

    def step(
        self, given: Mapping[str, Value], burst: Burst, held: int = 0
    ) -> tuple[Mapping[str, Tensor], Mapping[str, Value]]:
        """Run a burst of steps, or one if its outputs are not inputs of the next: the outputs and inputs of the last.

        Raises RunError if the run fails.
        """
        if self.resident is not None:
            return self._run_resident(given, held, burst), given
        if self.rotating is None:
            return self.run(given, held), given
        try:
            step = self.rotating.run(given, burst)
        except RunError as error:
            raise renamed(error, self.names) from error.__cause__
        if step is None:
            return self.run(given, held), given
        return step.values, step.given

    def run(self, given: Mapping[str, Value], held: int = 0) -> dict[str, Tensor]:
        """Run once: the outputs.

        Args:
            given: the inputs.
            held: see :meth:`Program.run`.

        Raises RunError if the run fails.
        """
        if self.session is None:
            return {}
        if self.resident is not None:
            return self._run_resident(given, held)
        try:
            return self._run(given, self.session)
        except RunError as error:
            raise renamed(error, self.names) from error.__cause__

    def run_feed(self, feed: dict[str, Any]) -> dict[str, Tensor]:
        """Run once on arrays by input of the model, where all inputs and outputs are arrays. Raises RunError."""
        assert self.session is not None
        try:
            return dict(zip(self.outputs, self.session.run_list(feed, self.graph_outputs), strict=True))
        except RunError as error:
            raise renamed(error, self.names) from error.__cause__

    def _run_resident(self, given: Mapping[str, Value], held: int, burst: Burst = ONCE) -> dict[str, Tensor]:
        assert self.resident is not None
        feed: Any = given
        if self.graph_inputs is not None:
            feed = {name: given[blob] for name, blob in zip(self.graph_inputs, self.inputs, strict=True)}
            held += bool(held)  # the feed refers to the values, too
        try:
            return dict(zip(self.outputs, self.resident.run(feed, held, burst), strict=True))
        except RunError as error:
            raise renamed(error, self.names) from error.__cause__

    def _run(self, given: Mapping[str, Value], session: Session) -> dict[str, Tensor]:
        inputs = self.inputs
        if self.arrays:
            # The most frequent case, and the only one in which the time spent here matters.
            arrays: Any = given
            if self.graph_inputs is not None:
                arrays = {name: given[blob] for name, blob in zip(self.graph_inputs, inputs, strict=True)}
            elif len(given) != len(inputs):
                arrays = {name: given[name] for name in inputs}
            return dict(zip(self.outputs, session.run_list(arrays, self.graph_outputs), strict=True))
        feed: dict[str, Any] = {}
        for name, blob in zip(self.graph_inputs or inputs, inputs, strict=True):
            value = given[blob]
            feed[name] = value.data if isinstance(value, Int8Tensor) else value
        found: dict[str, Tensor]
        if self.on_host:
            for name, value in feed.items():
                if isinstance(value, DeviceTensor):
                    feed[name] = value.numpy()
            found = dict(zip(self.outputs, session.run_list(feed, self.graph_outputs), strict=True))
        else:
            values = session.run_on_device(feed)
            found = {name: values[other] for name, other in zip(self.outputs, self.graph_outputs, strict=True)}
        for name, (scale, zero_point) in self.quantized.items():
            found[name] = Int8Tensor(to_host(found[name]), scale, zero_point)
        return found


@dataclass(frozen=True)
class LastKind:
    """The kind of inputs of the last run, to recognize it faster than by the signature of all inputs.

    States that the last step returned have the element types and shapes that they had.
    """

    variant: Variant
    signature: Signature
    _states: RotatingStates | ResidentStates | None
    _fed: tuple[tuple[str, np.dtype[Any], int | None, Any], ...]  # the name, element type, first known axis and extent
    _objects: tuple[tuple[str, Value | None], ...]  # inputs that are objects, or do not exist

    @classmethod
    def of(
        cls,
        variant: Variant,
        signature: Signature,
        names: Sequence[str],
        given: Mapping[str, Value],
        sized: Mapping[str, int],
    ) -> LastKind | None:
        """The kind of the inputs of a variant; ``names`` are those that ``signature`` describes.

        None if the states may have other names, or an input is neither an array nor an object.
        """
        states = variant.rotating or variant.resident
        if states is not None and variant.graph_inputs is not None:
            return None
        values = {name: given.get(name) for name in names if states is None or name not in states.states}
        fed = tuple(
            (name, value.dtype, sized.get(name), extent_of(value.shape, sized.get(name)))
            for name, value in values.items()
            if type(value) is np.ndarray
        )
        objects = tuple((name, value) for name, value in values.items() if isinstance(value, HostObject | None))
        return cls(variant, signature, states, fed, objects) if len(fed) + len(objects) == len(values) else None

    def fits(self, given: Mapping[str, Value]) -> bool:
        """Whether inputs are certainly of this kind."""
        if self._states is not None and not self._states.holds(given):
            return False
        for name, dtype, first, extent in self._fed:
            value = given.get(name)
            if type(value) is not np.ndarray or (value.dtype is not dtype and value.dtype != dtype):
                return False
            if (
                value.ndim if first is None else value.shape if first == 0 else extent_of(value.shape, first)
            ) != extent:
                return False
        return not self._objects or all(given.get(name) is value for name, value in self._objects)

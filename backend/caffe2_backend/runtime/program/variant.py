"""Variants: a net converted for one kind of inputs, with its session."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from caffe2_backend.runtime.blobs.burst import ONCE, Burst
from caffe2_backend.runtime.program.buffers.pool import BufferPool
from caffe2_backend.runtime.program.error_names import renamed
from caffe2_backend.runtime.program.states.resident import ResidentStates
from caffe2_backend.runtime.sessions.session import Session
from caffe2_backend.runtime.values import DeviceTensor, Int8Tensor, Tensor, Value, to_host
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
        pool: runs it with inputs, outputs and small states in buffers; None if it has a large state, or an input or
            output that is no array.
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
    pool: BufferPool | None = None

    @property
    def keeps_shapes(self) -> bool:
        """Whether the states that a step returns have the types and shapes of those that it was given."""
        return self.pool is not None and self.pool.has_buffers

    def returning(self, outputs: Collection[str], writes: Sequence[str]) -> Variant:
        """Return the variant of the same session that returns some of the outputs only.

        ``writes`` are the blobs that the net writes.
        """
        kept = [pair for pair in zip(self.outputs, self.graph_outputs, strict=True) if pair[0] in outputs]
        returned = dict(kept)
        return replace(
            self,
            pool=None if self.pool is None else self.pool.returning(returned.values()),
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
        if self.pool is not None:
            try:
                ran = self.pool.run(given, burst)
            except RunError as error:
                raise renamed(error, self.names) from error.__cause__
            if ran is not None:
                return ran
        return self.run(given, held), given

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
        feed: dict[str, Any] = {}
        for name, blob in zip(self.graph_inputs or self.inputs, self.inputs, strict=True):
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

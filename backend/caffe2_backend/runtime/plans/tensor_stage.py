"""Stages of operators on tensors: one program, run on the blobs of a workspace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Final, Protocol

from caffe2_backend.runtime.blobs.burst import ONCE, Burst
from caffe2_backend.runtime.blobs.frame import Frame
from caffe2_backend.runtime.blobs.results import Blobs, DeferredBlob, Results
from caffe2_backend.runtime.host.objects.stat_registry import GLOBAL_STATISTICS
from caffe2_backend.runtime.placement.automatic import PlacedProgram
from caffe2_backend.runtime.placement.make import Runnable
from caffe2_backend.runtime.placement.report import Placement
from caffe2_backend.runtime.plans.skipped_rows import SkippedRows
from caffe2_backend.runtime.program.origin import Origin
from caffe2_backend.runtime.values import DeviceTensor, NoBlobError, Value
from caffe2_bridge.diagnostics import BridgeError, ConversionError, Location, RunError
from caffe2_bridge.netdef.views import OpView

# The operator whose runs the registry of the process counts, and the name of the number.
_COUNTED: Final = "AtomicIter"
_STATISTIC: Final = "atomic_iter/stats/{}/num_iter"
# Codes of diagnostics that may say that a value has no one type or rank.
_OF_VALUES: Final = frozenset({"needs-shape", "unsupported"})


class Stage(Protocol):
    """A part of a net, or a whole net that is prepared."""

    @property
    def conversions(self) -> int:
        """How many conversions there were so far."""
        ...

    def run(self, frame: Frame, /) -> None:
        """Run once: read blobs of the frame, and write others."""
        ...

    def restart(self) -> None:
        """Forget what operators keep from run to run."""
        ...


class TensorStage:
    """Operators on tensors, as one program.

    Args:
        program: the program.
        ops: the operators.
        make_alone: makes the program of one of them.
        location: of the net.
        constant: whether they are of a net that reads nothing.
        through_bodies: makes stages of them that run bodies one by one; None if they have none.
    """

    def __init__(
        self,
        program: Runnable,
        ops: Sequence[OpView],
        make_alone: Callable[[OpView], Runnable],
        location: Location,
        *,
        constant: bool,
        through_bodies: Callable[[], Iterable[Stage]] | None = None,
    ) -> None:
        self.program = program
        self._ops, self._make_alone, self._location = ops, make_alone, location
        self.states = program.interface.state
        self._may_overwrite = bool(program.interface.tables)
        self._constant = constant
        self._through_bodies = through_bodies
        self._bodies: tuple[Stage, ...] = ()  # once the program could not be converted: in its place
        self._skipped = SkippedRows(ops, location)
        self._statistics = [_STATISTIC.format(op.inputs[1]) for op in ops if op.type == _COUNTED and len(op.inputs) > 1]

    @property
    def conversions(self) -> int:
        """How many conversions there were so far."""
        return self.program.conversions + sum(stage.conversions for stage in self._bodies)

    @property
    def keeps(self) -> bool:
        """Whether operators keep something from run to run."""
        return bool(self._skipped or self._bodies)

    @property
    def placement(self) -> Placement | None:
        """Where the operators run, if they were placed automatically."""
        return self.program.placement if isinstance(self.program, PlacedProgram) else None

    def run(self, frame: Frame, burst: Burst = ONCE) -> None:
        """Run once, or a burst of steps: read the inputs at one moment, and write the results at one moment.

        Of runs in several threads that update the same blobs, one begins when the other has ended: no update is lost.
        If an operator fails, the blobs that those before it wrote stay, as in Caffe2. Operators that cannot be
        converted, because the types or ranks that their bodies leave vary, run through their bodies one by one. Raises
        RunError, ConversionError.
        """
        with frame.updating(self.states) if self.states else nullcontext():
            if self._bodies:
                self._run_bodies(frame, self._bodies)
                return
            if self._skipped:
                burst = ONCE
            try:
                self._run(frame, burst)
            except NoBlobError:  # Caffe2 raises when it creates the net
                raise
            except (RunError, ConversionError) as error:
                if self._through_bodies is not None and _may_run_in_parts(error):
                    self._learn_bodies(frame, self._through_bodies(), error)
                    return
                if not self.program.updates_in_place:  # nothing has changed
                    self._run_until_failure(frame, error)
                raise
        for key in self._statistics:
            GLOBAL_STATISTICS.add(key, burst.steps)

    def _learn_bodies(self, frame: Frame, made: Iterable[Stage], error: BridgeError) -> None:
        """Run through bodies, now and, if they can be run, from now on. Raises the error, with all findings, if not."""
        bodies = tuple(made)
        try:
            self._run_bodies(frame, bodies)
        except (ConversionError, NoBlobError):
            raise error from None
        self._bodies = bodies

    @staticmethod
    def _run_bodies(frame: Frame, stages: Iterable[Stage]) -> None:
        for stage in stages:
            stage.run(frame)

    def _run(self, frame: Frame, burst: Burst) -> None:
        program = self.program
        held = frame.held if self._may_overwrite else 0
        with frame.lock:
            given = program.collect(frame.view)
            self._skipped.count(given)
            before = frame.writes.value
            if held and program.updates_in_place:
                # Under the lock: nobody reads a blob while it changes.
                frame.commit(program.run(given, frame.constants, burst, held=held), constant=self._constant)
                return
        results = program.run(given, frame.constants, burst)
        if not self.states:
            frame.commit(results, constant=self._constant)
            return
        with frame.lock:
            if frame.writes.value != before:
                results = self._without_overwritten(results, given, frame.view)
            frame.commit(results, constant=self._constant)

    def _run_until_failure(self, frame: Frame, error: BridgeError) -> None:
        """Run one operator at a time, after a run of all that failed. Raises the error of the one that fails."""
        if len(self._ops) == 1 and isinstance(error, RunError):
            raise self._named(error, self._ops[0]) from error
        for op in self._ops if len(self._ops) > 1 else ():
            if isinstance(error, RunError) and error.operator == op.index:
                raise error
            alone = TensorStage(self._make_alone(op), (), self._make_alone, self._location, constant=False)
            try:
                alone._run(frame, ONCE)
            except RunError as failure:
                raise self._named(failure, op) from error
            except ConversionError:
                raise error from None  # with all findings

    def _named(self, failure: RunError, op: OpView) -> RunError:
        """Return the error of an operator, with its location and inputs."""
        return failure if failure.operator is not None else Origin(self._location).failure(op, str(failure))

    def _without_overwritten(self, results: Results, given: Mapping[str, Value], blobs: Blobs) -> Results:
        """Return the results without states that were fed, or written by a net that does not read them, during the run.

        They keep the newer values, as if the run had ended before: no feed is lost.
        """

        def is_newer(name: str) -> bool:
            now, before = blobs.get(name), given.get(name)
            if isinstance(now, DeviceTensor) and isinstance(before, DeviceTensor):
                return now.ort is not before.ort  # a fetch leaves another object for the same memory
            return before is not None and now is not before and not isinstance(now, DeferredBlob)

        newer = set(filter(is_newer, self.states))
        return results._replace(values={name: value for name, value in results.values.items() if name not in newer})

    def restart(self) -> None:
        """Forget what operators keep from run to run: programs keep nothing."""
        self._skipped.restart()
        for stage in self._bodies:
            stage.restart()


def _may_run_in_parts(error: BridgeError) -> bool:
    """Whether operators cannot be converted for want of a type or rank, which the values have when they are run."""
    return isinstance(error, ConversionError) and all(found.code in _OF_VALUES for found in error.errors)

"""Run plans: execution steps over the nets of a workspace.

The semantics of a step, as measured with real Caffe2:

* Its nets or its substeps run in order, ``num_iter`` times (default 1).
* With ``should_stop_blob`` they run until that blob is true; with ``only_once`` as well, at most once. The blob is
  tested after each net and substep, and after all concurrent ones; one that was never written is false.
* ``concurrent_substeps`` runs the substeps in threads, all of them in every iteration. ``num_concurrent_instances``
  multiplies the threads, also those of a single substep or of substeps that are not concurrent; it does not concern
  nets. If one fails, the others stop before their next iteration, and the first error is raised.
* ``report_net`` runs every ``report_interval`` seconds in a thread of its own while the step runs, and once at its end.
  So does a substep with ``run_every_ms``, instead of running in turn. A warning is logged where such a run fails.
* ``create_workspace`` gives every run of the step a child workspace: blobs that it creates vanish at its end.
* ``num_iter`` together with ``should_stop_blob``, and ``only_once`` without that, are refused; ``criteria_network`` has
  no effect.

A step of one net, or of a CountDown and one net until the count has ended, runs in bursts (see ``counted_loops``).

Unlike in Caffe2, where they would wait for ever, substeps that wait for a queue are woken when another one fails.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count

import numpy as np

from caffe2_backend.runtime.calls.blob_workspace import Workspace
from caffe2_backend.runtime.calls.counted_loops import CountedLoop, counted_loop
from caffe2_backend.runtime.host.waiting import CancelledError, concurrent_work, is_concurrent, working_in
from caffe2_backend.runtime.values import NoBlobError
from caffe2_bridge.diagnostics import Location, RunError
from caffe2_bridge.proto.caffe2_pb2 import ExecutionStep, NetDef, PlanDef

logger = logging.getLogger(__name__)
# Whether a step is to go on with another iteration.
_GoOn = Callable[[], bool]
_Part = Callable[[_GoOn], None]


def run_plan(workspace: Workspace, plan: PlanDef) -> None:
    """Run a plan. Its nets are created in the workspace under their names, and replace nets of these names.

    Raises:
        RunError: two nets have one name, a step names a net that the plan lacks or combines fields that exclude each
            other (before anything runs), or a run fails.
        ConversionError: a net cannot be converted.
    """
    nets: dict[str, NetDef] = {}
    for net in plan.network:
        if net.name in nets:
            raise RunError(f"plan {plan.name!r} has several nets of the name {net.name!r}")
        nets[net.name] = net
    here = Location(plan.name or "plan")
    for step in plan.execution_step:
        _validate(step, nets, here)
    space = _PlanWorkspace(workspace, nets)
    for step in plan.execution_step:
        if not step.create_workspace:
            space.create_nets(step)
    for step in plan.execution_step:
        _run_step(step, space, lambda: True)


def _validate(step: ExecutionStep, nets: Mapping[str, NetDef], outer: Location) -> None:
    """Raise RunError if a step or one of its substeps cannot be run."""
    here = outer.enter(step.name or "step")
    if step.substep and step.network:
        raise RunError(f"{here}: the step must have nets or substeps, not both")
    if step.HasField("only_once") and not step.HasField("should_stop_blob"):
        raise RunError(f"{here}: only_once is supported together with should_stop_blob only, as in Caffe2")
    if step.HasField("should_stop_blob") and step.HasField("num_iter"):
        raise RunError(f"{here}: num_iter must not be set together with should_stop_blob")
    for name in (*step.network, *([step.report_net] if step.report_net else [])):
        if name not in nets:
            raise RunError(f"{here}: the step runs net {name!r}, which the plan lacks")
    for substep in step.substep:
        _validate(substep, nets, here)


class _PlanWorkspace:
    """A workspace, and which nets of the plan were created in it."""

    def __init__(self, workspace: Workspace, nets: Mapping[str, NetDef]) -> None:
        self.workspace = workspace
        self._nets = nets
        self._created: set[str] = set()
        self._lock = threading.Lock()

    def child(self) -> _PlanWorkspace:
        return _PlanWorkspace(self.workspace.child(), self._nets)

    def create_nets(self, step: ExecutionStep) -> None:
        """Create the nets of a step and its substeps, except those that run in a workspace of their own."""
        self._create([*step.network, *([step.report_net] if step.report_net else [])])
        for substep in step.substep:
            if not substep.create_workspace:
                self.create_nets(substep)

    def _create(self, names: Iterable[str]) -> None:
        with self._lock:
            for name in names:
                if name not in self._created:
                    self.workspace.create_net(self._nets[name], overwrite=True)
                    self._created.add(name)

    def counted_loop(self, step: ExecutionStep) -> CountedLoop | None:
        """Return the loop that a step is, which a counter ends; None if it is none."""
        return counted_loop(step, self._nets)

    def is_true(self, blob: str) -> bool:
        """Whether a blob that stops a step is true."""
        try:
            value = self.workspace.fetch(blob)
        except NoBlobError:
            return False
        if not isinstance(value, np.ndarray) or value.dtype != np.bool_ or value.size != 1:
            raise RunError(f"blob {blob!r}, which stops a step, must be a boolean of one element")
        return bool(value.reshape(-1)[0])


def _run_step(step: ExecutionStep, outer: _PlanWorkspace, go_on: _GoOn) -> None:
    """Run a step while ``go_on`` is true."""
    space = outer
    if step.create_workspace:
        space = outer.child()
        space.create_nets(step)
    parts = _parts(step, space)
    concurrent = step.concurrent_substeps and len(step.substep) > 1
    instances = max(step.num_concurrent_instances, 1) if step.substep else 1
    with _reporting(step, space, go_on):
        if len(step.network) == 1 and not step.HasField("should_stop_blob") and not is_concurrent():
            space.workspace.run_net(step.network[0], _times(step))  # in bursts, where the net is tiny
            return
        loop = None if is_concurrent() or instances > 1 else space.counted_loop(step)
        if loop is not None and loop.run(space.workspace, go_on):
            return
        for _ in _turns(step):
            if not go_on():
                return
            if concurrent or instances > 1:
                _run_together(list(parts) * instances, go_on)
                if _stops(step, space):
                    return
                continue
            for part in parts:
                part(go_on)
                if _stops(step, space):
                    return


def _turns(step: ExecutionStep) -> Iterable[int]:
    """Return the iterations of a step."""
    if step.HasField("should_stop_blob"):
        return range(1) if step.only_once else count()
    return range(_times(step))


def _times(step: ExecutionStep) -> int:
    return step.num_iter if step.HasField("num_iter") else 1


def _stops(step: ExecutionStep, space: _PlanWorkspace) -> bool:
    return step.HasField("should_stop_blob") and space.is_true(step.should_stop_blob)


def _parts(step: ExecutionStep, space: _PlanWorkspace) -> Sequence[_Part]:
    """Return what an iteration of a step runs."""
    if step.network:
        return [partial(_run_net, name, space) for name in step.network]
    return [partial(_run_step, substep, space) for substep in step.substep if not substep.HasField("run_every_ms")]


def _run_net(name: str, space: _PlanWorkspace, go_on: _GoOn) -> None:
    del go_on
    space.workspace.run_net(name)


def _run_together(parts: Sequence[_Part], go_on: _GoOn) -> None:
    """Run parts in threads. Raises the first error of one of them, when all have ended."""
    failures: list[BaseException] = []

    with concurrent_work() as work:

        def run(part: _Part) -> None:
            try:
                with working_in(work):
                    part(lambda: not work.is_cancelled and go_on())
            except BaseException as error:  # noqa: BLE001 - raised in the thread of the step
                failures.append(error)
                work.cancel()

        threads = [threading.Thread(target=run, args=(part,), daemon=True) for part in parts]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException:
            work.cancel()
            raise
    if failures:
        raise next((error for error in failures if not isinstance(error, CancelledError)), failures[0])


@contextmanager
def _reporting(step: ExecutionStep, space: _PlanWorkspace, go_on: _GoOn) -> Iterator[None]:
    """Run a step's report net and its periodic substeps in threads, and each once at the end."""
    with ExitStack() as stack:
        if step.report_net:
            run = partial(_run_net, step.report_net, space, go_on)
            stack.enter_context(_periodically(max(step.report_interval, 1), run, "report_net"))
        for substep in step.substep:
            if substep.HasField("run_every_ms"):
                run = partial(_run_step, substep, space, go_on)
                stack.enter_context(_periodically(max(substep.run_every_ms, 1) / 1000, run, "report step"))
        yield


@contextmanager
def _periodically(seconds: float, run: Callable[[], None], what: str) -> Iterator[None]:
    """Run something in a thread as long as the block runs, and once at its end."""
    done = threading.Event()
    failures: list[BaseException] = []

    def report() -> None:
        try:
            while True:
                ended = done.wait(seconds)
                try:
                    run()
                except RunError as error:
                    logger.warning("Error running %s: %s", what, error)
                if ended:
                    return
        except BaseException as error:  # noqa: BLE001 - raised in the thread of the plan
            failures.append(error)

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    if failures:
        raise failures[0]

"""Run plans: execution steps over the nets of a workspace.

The semantics of a step, as measured with real Caffe2:

* Its nets or its substeps run in order, ``num_iter`` times (default 1).
* With ``should_stop_blob`` they run until that blob is true. It is tested after each net and substep; one that was
  never written is false.
* ``report_net`` runs every ``report_interval`` seconds in a thread of its own while the step runs, and once at its end.
* ``create_workspace`` gives the step a child workspace: blobs that it creates vanish at its end.
* ``num_concurrent_instances`` multiplies the runs of substeps, not those of nets.
* ``only_once`` and ``num_iter`` together with ``should_stop_blob`` are refused; ``criteria_network`` and
  ``run_every_ms`` have no effect.

Substeps that Caffe2 runs concurrently run in order here, so those that wait for one another (through a queue) block.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np

from caffe2_backend.runtime.blob_workspace import Workspace
from caffe2_bridge.diagnostics import Location, RunError
from caffe2_bridge.proto.caffe2_pb2 import ExecutionStep, NetDef, PlanDef


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
    runner = _Runner(workspace, nets)
    for step in plan.execution_step:
        runner.create_nets(step)
    for step in plan.execution_step:
        runner.step(step)


def _validate(step: ExecutionStep, nets: Mapping[str, NetDef], outer: Location) -> None:
    """Raise RunError if a step or one of its substeps cannot be run."""
    here = outer.enter(step.name or "step")
    if step.substep and step.network:
        raise RunError(f"{here}: the step must have nets or substeps, not both")
    if step.HasField("only_once"):
        raise RunError(f"{here}: only_once is not supported, as in Caffe2")
    if step.HasField("should_stop_blob") and step.HasField("num_iter"):
        raise RunError(f"{here}: num_iter must not be set together with should_stop_blob")
    for name in (*step.network, *([step.report_net] if step.report_net else [])):
        if name not in nets:
            raise RunError(f"{here}: the step runs net {name!r}, which the plan lacks")
    for substep in step.substep:
        _validate(substep, nets, here)


class _Runner:
    """Runs the steps of one plan."""

    def __init__(self, workspace: Workspace, nets: Mapping[str, NetDef]) -> None:
        self._workspace = workspace
        self._nets = nets
        self._created: set[str] = set()
        self._lock = threading.Lock()

    def create_nets(self, step: ExecutionStep) -> None:
        """Create the nets of a step and its substeps, except those that run in a workspace of their own."""
        if not step.create_workspace:
            self._create([*step.network, *([step.report_net] if step.report_net else [])])
            for substep in step.substep:
                self.create_nets(substep)

    def _create(self, names: Iterable[str]) -> None:
        with self._lock:
            for name in names:
                if name not in self._created:
                    self._workspace.create_net(self._nets[name], overwrite=True)
                    self._created.add(name)

    def step(self, step: ExecutionStep) -> None:
        parts = self._parts(step)
        with self._reporting(step), self._scope(step):
            if step.HasField("should_stop_blob"):
                self._until(step.should_stop_blob, parts)
                return
            for _ in range(step.num_iter if step.HasField("num_iter") else 1):
                for part in parts:
                    part()

    def _parts(self, step: ExecutionStep) -> Sequence[Callable[[], None]]:
        if step.network:
            return [partial(self._net, name) for name in step.network]
        instances = max(step.num_concurrent_instances, 1)
        return [partial(self.step, substep) for substep in step.substep] * instances

    def _net(self, name: str) -> None:
        self._create([name])
        self._workspace.run_net(name)

    def _until(self, stop: str, parts: Sequence[Callable[[], None]]) -> None:
        while parts:
            for part in parts:
                part()
                if self._is_true(stop):
                    return

    def _is_true(self, blob: str) -> bool:
        if blob not in self._workspace.blobs():
            return False
        value = self._workspace.fetch(blob)
        if not isinstance(value, np.ndarray) or value.dtype != np.bool_ or value.size != 1:
            raise RunError(f"blob {blob!r}, which stops a step, must be a boolean of one element")
        return bool(value.reshape(-1)[0])

    @contextmanager
    def _scope(self, step: ExecutionStep) -> Iterator[None]:
        """Remove the blobs and nets that a step with a workspace of its own creates."""
        if not step.create_workspace:
            yield
            return
        blobs, nets = set(self._workspace.blobs()), set(self._workspace.nets())
        try:
            yield
        finally:
            for name in set(self._workspace.blobs()) - blobs:
                self._workspace.remove_blob(name)
            for name in set(self._workspace.nets()) - nets:
                self._workspace.remove_net(name)
                self._created.discard(name)

    @contextmanager
    def _reporting(self, step: ExecutionStep) -> Iterator[None]:
        """Run the step's report net periodically, and once at the end."""
        if not step.report_net:
            yield
            return
        done = threading.Event()
        failures: list[Exception] = []

        def report() -> None:
            try:
                while not done.wait(max(step.report_interval, 1)):
                    self._net(step.report_net)
                self._net(step.report_net)
            except Exception as error:  # noqa: BLE001 - raised in the thread of the plan
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

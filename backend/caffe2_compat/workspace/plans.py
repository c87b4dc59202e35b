"""Run plans in the current workspace."""
# ruff: noqa: N802 - Caffe2's names

from __future__ import annotations

import threading
from typing import Any

from google.protobuf.message import DecodeError, Message

from caffe2_backend.runtime.calls.plan_runner import run_plan
from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.proto.caffe2_pb2 import ExecutionStep, PlanDef
from caffe2_compat.workspace.named_workspaces import current
from caffe2_compat.workspace.names import StringifyProto


def RunPlan(plan_or_step: Any) -> bool:
    """Run a plan: a PlanDef, its bytes, a Plan of Caffe2's core, or an ExecutionStep of it, which knows its nets.

    Raises:
        RunError: the plan or a step is malformed, or a run fails.
        ConversionError: a net cannot be converted.
        NetFormatError: the bytes are not a PlanDef.
        ValueError: the object is none of these.
    """
    run_plan(current(), _plan(plan_or_step))
    return True


class BackgroundPlan:
    """A plan that runs in a thread of its own."""

    def __init__(self, plan: PlanDef) -> None:
        self._error: BaseException | None = None
        self._workspace = current()
        self._thread = threading.Thread(target=self._run, args=(plan,), daemon=True)
        self._thread.start()

    def _run(self, plan: PlanDef) -> None:
        try:
            run_plan(self._workspace, plan)
        except BaseException as error:  # noqa: BLE001 - raised by is_succeeded
            self._error = error

    def is_done(self) -> bool:
        """Whether the plan has ended."""
        return not self._thread.is_alive()

    def is_succeeded(self) -> bool:
        """Wait for the end of the plan; return True, or raise what the plan raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return True


def RunPlanInBackground(plan_or_step: Any) -> BackgroundPlan:
    """Run a plan in a thread of its own; raises as :func:`RunPlan` where the plan cannot be read."""
    return BackgroundPlan(_plan(plan_or_step))


def _plan(given: Any) -> PlanDef:
    if type(given).__name__ == "ExecutionStep" and not isinstance(given, Message):
        return _plan_of_step(given)
    content = StringifyProto(given)
    try:
        return PlanDef.FromString(content if isinstance(content, bytes) else content.encode())
    except DecodeError:
        raise NetFormatError("the content is not a PlanDef") from None


def _plan_of_step(step: Any) -> PlanDef:
    """Return a plan of one ``core.ExecutionStep`` and the nets that it and its substeps run."""
    plan = PlanDef(name=step.Name())
    plan.execution_step.append(ExecutionStep.FromString(step.Proto().SerializeToString()))
    for net in step.Nets():
        plan.network.add().MergeFromString(net.Proto().SerializeToString())
    return plan

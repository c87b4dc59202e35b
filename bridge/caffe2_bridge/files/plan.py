"""PlanDefs: several nets, and the steps that run them. Read as a model where each net runs in its turn, once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.init_net import read_init_net
from caffe2_bridge.proto.caffe2_pb2 import ExecutionStep, NetDef, PlanDef


@dataclass(frozen=True)
class PlannedNets:
    """The nets of a plan: ``init``, those at its start that only make constants, joined; ``predict``, the others."""

    init: NetDef | None
    predict: NetDef


def read_plan(plan: PlanDef) -> PlannedNets:
    """A plan that runs its nets one after another, as two nets.

    Raises NetFormatError, without a source, where the plan does more than that: says which step, and what it does.
    """
    nets = nets_in_order(plan)
    first = next((i for i, net in enumerate(nets[:-1]) if not _only_makes_constants(net)), len(nets) - 1)
    init = joined(nets[:first], plan.name) if first else None
    return PlannedNets(init, joined(nets[first:], plan.name))


def nets_in_order(plan: PlanDef) -> list[NetDef]:
    """The nets that a plan runs, in the order in which it does, each as often as it is run.

    A plan of one net without steps, which Caffe2 would not run at all, stands for that net. Raises NetFormatError as
    :func:`read_plan` does.
    """
    twice = [name for name, count in Counter(net.name for net in plan.network).items() if count > 1]
    if twice:
        raise _refused(plan, f"several of its nets are called {twice[0]!r}")
    nets = {net.name: net for net in plan.network}
    if len(nets) == 1 and not plan.execution_step:
        return list(plan.network)
    names = [name for step in plan.execution_step for name in _run_by(step, plan)]
    unknown = [name for name in names if name not in nets]
    if unknown:
        raise _refused(plan, f"its steps run the net {unknown[0]!r}, which it does not hold")
    if not names:
        raise _refused(plan, "its steps run no net")
    return [nets[name] for name in names]


def _run_by(step: ExecutionStep, plan: PlanDef) -> Iterator[str]:
    """The names of the nets that a step runs."""
    problem = _more_than_once(step) or _beside_others(step)
    if problem:
        raise _refused(plan, f"its step {step.name!r} {problem}")
    if step.HasField("num_iter") and step.num_iter <= 0:
        return
    yield from step.network
    for inner in step.substep:
        yield from _run_by(inner, plan)


def _more_than_once(step: ExecutionStep) -> str:
    """How a step repeats, empty where it does not."""
    if step.HasField("should_stop_blob"):
        return f"repeats until the blob {step.should_stop_blob!r} is true"
    if step.criteria_network:
        return f"repeats while the net {step.criteria_network!r} says so"
    if step.num_iter > 1:
        return f"repeats {step.num_iter} times"
    if step.num_concurrent_instances > 1:
        return f"runs in {step.num_concurrent_instances} copies at a time"
    return f"runs every {step.run_every_ms} ms" if step.run_every_ms else ""


def _beside_others(step: ExecutionStep) -> str:
    """What a step runs beside something else, empty where that is nothing."""
    if step.report_net:
        return f"runs the net {step.report_net!r} now and then, beside the others"
    if step.concurrent_substeps and len(step.substep) > 1:
        return f"runs {len(step.substep)} steps at the same time, in no order"
    return "has both nets and steps, which Caffe2 does not run" if step.network and step.substep else ""


def _refused(plan: PlanDef, what: str) -> NetFormatError:
    names = ", ".join(repr(net.name) for net in plan.network) or "none"
    return NetFormatError(
        f"this is a PlanDef of {len(plan.network)} nets ({names}): {what}; of plans those are read as a model that run "
        "their nets one after another, once (caffe2_bridge.files.load_plan gives the plan itself)"
    )


def _only_makes_constants(net: NetDef) -> bool:
    init = read_init_net(net)
    return not init.rest and not init.findings and bool(init.parameters)


def joined(nets: Sequence[NetDef], name: str = "") -> NetDef:
    """One net that does what several do, one after another.

    Its inputs are those that no net before makes; its outputs those of the last net, after those of the others that
    nobody reads. A net's device becomes that of its operators; of arguments with one name the first is kept.
    """
    if len(nets) == 1:
        return nets[0]
    out = NetDef(name=name or nets[-1].name or "plan")
    written: set[str] = set()
    results: dict[str, None] = {}
    for net in nets:
        read = {blob for op in net.op for blob in op.input}
        results = {blob: None for blob in results if blob not in read}
        results.update(dict.fromkeys(net.external_output))
        out.external_input.extend(
            blob for blob in dict.fromkeys(net.external_input) if blob not in written and blob not in out.external_input
        )
        known = {arg.name for arg in out.arg}
        out.arg.extend(arg for arg in net.arg if arg.name not in known)
        for op in net.op:
            added = out.op.add()
            added.CopyFrom(op)
            if net.HasField("device_option") and not op.HasField("device_option"):
                added.device_option.CopyFrom(net.device_option)
            written.update(op.output)
    out.external_output.extend(results)
    return out

"""PlanDefs: several nets, and the steps that run them, read as a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from caffe2_bridge.diagnostics import ConversionError, NetFormatError
from caffe2_bridge.init.init_net import read_init_net
from caffe2_bridge.plans import plan_net
from caffe2_bridge.proto.caffe2_pb2 import ExecutionStep, NetDef, PlanDef


@dataclass(frozen=True)
class PlannedNets:
    """What a plan runs: ``init``, the nets at its start that only make constants, joined; ``predict``, all the rest."""

    init: NetDef | None
    predict: NetDef


def read_plan(plan: PlanDef) -> PlannedNets:
    """A plan as two nets. Nets that run one after another are joined; loops become While operators.

    A plan of one net without steps, which Caffe2 would not run at all, stands for that net.

    Raises NetFormatError, without a source, where the plan does what a net cannot: says which step, and what it does.
    """
    twice = [name for name, count in Counter(net.name for net in plan.network).items() if count > 1]
    if twice:
        raise _refused(plan, f"several of its nets are called {twice[0]!r}")
    nets = {net.name: net for net in plan.network}
    if len(nets) == 1 and not plan.execution_step:
        return PlannedNets(None, plan.network[0])
    names = _straight(plan.execution_step)
    if names is None or not set(names) <= set(nets):
        return _with_loops(plan, nets)
    if not names:
        raise _refused(plan, "its steps run no net")
    order = [nets[name] for name in names]
    first = next((i for i, net in enumerate(order[:-1]) if not _only_makes_constants(net)), len(order) - 1)
    init = joined(order[:first], plan.name) if first else None
    return PlannedNets(init, joined(order[first:], plan.name))


def _with_loops(plan: PlanDef, nets: Mapping[str, NetDef]) -> PlannedNets:
    """A plan whose steps repeat, but for those at its start that only make constants."""
    init: list[NetDef] = []
    steps = list(plan.execution_step)
    stops = set(_stops(steps))
    while steps:
        names = _straight(steps[:1])
        made = None if names is None or not set(names) <= set(nets) else [nets[name] for name in names]
        # What tells a loop to stop belongs to the loop: whether anything wrote it before makes a difference there.
        if made is None or not all(_only_makes_constants(net) and stops.isdisjoint(_written(net)) for net in made):
            break
        init += made
        del steps[0]
    try:
        predict = plan_net(PlanDef(name=plan.name, network=plan.network, execution_step=steps))
    except ConversionError as error:
        raise _refused(plan, "; ".join(map(str, error.findings))) from None
    # A loop does not say what it writes.
    written = {name for net in plan.network for name in _written(net)}
    results = [name for net in plan.network for name in net.external_output if name in written]
    added = [name for name in dict.fromkeys(results) if name not in predict.external_output]
    predict.external_output.extend(added)
    return PlannedNets(joined(init, plan.name) if init else None, predict)


def _straight(steps: Iterable[ExecutionStep]) -> list[str] | None:
    """The names of the nets that steps run one after another, None where they do more than that."""
    names: list[str] = []
    for step in steps:
        repeats = step.num_iter > 1 or step.HasField("should_stop_blob") or step.run_every_ms or step.report_net
        apart = step.num_concurrent_instances > 1 or step.create_workspace or step.HasField("only_once")
        unordered = (step.concurrent_substeps and len(step.substep) > 1) or (step.network and step.substep)
        inner = _straight(step.substep)
        if repeats or apart or unordered or inner is None:
            return None
        if not step.HasField("num_iter") or step.num_iter > 0:
            names += [*step.network, *inner]
    return names


def _stops(steps: Iterable[ExecutionStep]) -> Iterator[str]:
    for step in steps:
        if step.HasField("should_stop_blob"):
            yield step.should_stop_blob
        yield from _stops(step.substep)


def _written(net: NetDef) -> set[str]:
    return {name for op in net.op for name in op.output}


def _refused(plan: PlanDef, what: str) -> NetFormatError:
    names = ", ".join(repr(net.name) for net in plan.network) or "none"
    return NetFormatError(
        f"this is a PlanDef of {len(plan.network)} nets ({names}), and no model: {what} "
        "(caffe2_bridge.files.load_plan gives the plan itself)"
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

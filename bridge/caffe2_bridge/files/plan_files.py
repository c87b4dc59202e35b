"""Read PlanDefs, which hold several nets and the steps that run them, as models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from caffe2_bridge.diagnostics import ConversionError, NetFormatError
from caffe2_bridge.init.init_net import read_init_net
from caffe2_bridge.plans import plan_net, require_plan_size
from caffe2_bridge.proto.caffe2_pb2 import ExecutionStep, NetDef, PlanDef


@dataclass(frozen=True)
class PlannedNets:
    """The nets of a plan: ``init`` joins those at its start that only write constants, ``predict`` all others."""

    init: NetDef | None
    predict: NetDef


def read_plan(plan: PlanDef) -> PlannedNets:
    """Convert a plan to two nets. Nets that run in sequence are joined; loops become While operators.

    A plan of one net without steps, which Caffe2 would not run at all, is read as that net.

    Raises NetFormatError, without a source, if a step has no equivalent in a net; the message names the step.
    """
    duplicates = [name for name, count in Counter(net.name for net in plan.network).items() if count > 1]
    if duplicates:
        raise _error(plan, f"several of its nets are named {duplicates[0]!r}")
    nets = {net.name: net for net in plan.network}
    if len(nets) == 1 and not plan.execution_step:
        return PlannedNets(None, plan.network[0])
    names = _sequential(plan.execution_step)
    try:
        require_plan_size(plan, nets)
    except ConversionError as error:
        raise _error(plan, "; ".join(map(str, error.findings))) from None
    if names is None or not set(names) <= set(nets):
        return _with_loops(plan, nets)
    if not names:
        raise _error(plan, "its steps do not run any net")
    order = [nets[name] for name in names]
    first = next((i for i, net in enumerate(order[:-1]) if not _only_writes_constants(net)), len(order) - 1)
    init = joined(order[:first], plan.name) if first else None
    return PlannedNets(init, joined(order[first:], plan.name))


def _with_loops(plan: PlanDef, nets: Mapping[str, NetDef]) -> PlannedNets:
    """Convert a plan with loops; the steps at its start that only write constants become the init net."""
    init: list[NetDef] = []
    steps = list(plan.execution_step)
    stops = set(_stops(steps))
    while steps:
        names = _sequential(steps[:1])
        run = None if names is None or not set(names) <= set(nets) else [nets[name] for name in names]
        # A net that writes a stop blob stays with the loop, which must see that the blob was written before it.
        if run is None or not all(_only_writes_constants(net) and stops.isdisjoint(_written(net)) for net in run):
            break
        init += run
        del steps[0]
    try:
        predict = plan_net(PlanDef(name=plan.name, network=plan.network, execution_step=steps))
    except ConversionError as error:
        raise _error(plan, "; ".join(map(str, error.findings))) from None
    # The outputs of a While do not list the blobs that its body writes.
    written = {name for net in plan.network for name in _written(net)}
    results = [name for net in plan.network for name in net.external_output if name in written]
    added = [name for name in dict.fromkeys(results) if name not in predict.external_output]
    predict.external_output.extend(added)
    return PlannedNets(joined(init, plan.name) if init else None, predict)


def _sequential(steps: Iterable[ExecutionStep]) -> list[str] | None:
    """Return the names of the nets that steps run in sequence, each once; None if they do anything else."""
    names: list[str] = []
    for step in steps:
        repeats = step.num_iter > 1 or step.HasField("should_stop_blob") or step.run_every_ms or step.report_net
        isolated = step.num_concurrent_instances > 1 or step.create_workspace or step.HasField("only_once")
        unordered = (step.concurrent_substeps and len(step.substep) > 1) or (step.network and step.substep)
        inner = _sequential(step.substep)
        if repeats or isolated or unordered or inner is None:
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


def _error(plan: PlanDef, reason: str) -> NetFormatError:
    names = ", ".join(repr(net.name) for net in plan.network) or "none"
    return NetFormatError(
        f"this is a PlanDef of {len(plan.network)} nets ({names}) that cannot be read as a model: {reason} "
        "(caffe2_bridge.files.load_plan returns the plan)"
    )


def _only_writes_constants(net: NetDef) -> bool:
    init = read_init_net(net)
    loads = any(op.type == "Load" for op in init.rest)
    constant = loads or bool(init.parameters)
    return constant and not init.findings and all(op.type in ("Load", "CreateDB") for op in init.rest)


def joined(nets: Sequence[NetDef], name: str = "") -> NetDef:
    """Join nets that run in sequence into one net.

    Its external inputs are those that no earlier net writes; its external outputs are those of each net that no later
    net reads. The device option of a net becomes that of its operators. Of several arguments with one name the first
    is kept.
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

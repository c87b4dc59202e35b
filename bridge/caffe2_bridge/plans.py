"""Translate plans into nets: execution steps become While and If operators, counters become tensors.

The semantics of a step, as measured with real Caffe2:

* Its nets or substeps run in order.
* ``num_iter`` repeats the step; 0 skips it. It becomes a While that counts::

      done = 0; end = num_iter; go = true
      while go: BODY; done += 1; go = done < end

* ``should_stop_blob`` repeats the step until that blob is true. The blob is tested after each net and substep, so all
  that follows one part is nested in an If::

      go = true
      while go: PART 1; go = not stop; if go: (PART 2; go = not stop; if go: ...)

* A counter is an int64 tensor of one element.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Final

from google.protobuf.message import DecodeError

from caffe2_bridge.bounds import MAX_BODIES, MAX_FUNCTION_GROWTH, current_limits, hint_of
from caffe2_bridge.control import BodyScope, control_of, if_arguments, while_arguments
from caffe2_bridge.diagnostics import ConversionError, Diagnostic, Location
from caffe2_bridge.netdef.construct import make_operator
from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.proto.caffe2_pb2 import ExecutionStep, NetDef, OperatorDef, PlanDef, TensorProto


def plan_net(plan: PlanDef) -> NetDef:
    """Translate a plan into one equivalent net.

    The net's external inputs are the blobs that are read before they are written. Its external outputs are those of
    the plan's nets, or, if these declare none, every blob that the plan writes.

    Raises:
        ConversionError: a step has no equivalent in a net (it runs concurrently, periodically, only once, or in its own
            workspace), or names a net that the plan lacks. The error holds all diagnostics.
    """
    nets = {net.name: net for net in plan.network}
    require_plan_size(plan, nets)
    translation = _Translation(nets, plan.name or "plan")
    ops = [op for step in plan.execution_step for op in translation.step(step, Location(translation.plan))]
    if translation.diagnostics:
        raise ConversionError(translation.diagnostics)
    net = NetDef(name=translation.plan, op=ops)
    net.external_input.extend(_read_first(net))
    declared = dict.fromkeys(name for source in plan.network for name in source.external_output)
    written = dict.fromkeys(name for name in _written(ops) if not name.startswith(_TEMPORARY))
    net.external_output.extend(name for name in declared or written if name in written)
    return net


def require_plan_size(plan: PlanDef, nets: Mapping[str, NetDef]) -> None:
    """Raise ConversionError if the plan's steps run nets so often that it expands to too many operators."""
    sizes = {name: len(net.op) for name, net in nets.items()}
    runs: Counter[str] = Counter()
    steps = list(plan.execution_step)
    while steps:
        step = steps.pop()
        runs.update(step.network)
        steps += step.substep
    expanded = sum(times * sizes.get(name, 0) for name, times in runs.items())
    allowed = max(current_limits().plan_operators, MAX_FUNCTION_GROWTH * sum(sizes.values()))
    if expanded > allowed:
        reason = f"the plan's steps expand to {expanded:,} operators; {allowed:,} are allowed"
        hint = hint_of("plan_operators", expanded)
        raise ConversionError([Diagnostic("expansion", reason, Location(plan.name or "plan"), hint=hint)])


# The prefix of the blobs that the translation creates.
_TEMPORARY: Final = "__plan/"


class _Translation:
    """The state of one translation: the plan's nets, the diagnostics so far, and the blobs written so far."""

    def __init__(self, nets: Mapping[str, NetDef], plan: str) -> None:
        self.nets = nets
        self.plan = plan
        self.diagnostics: list[Diagnostic] = []
        self._numbers = count()
        self._written: set[str] = {name for net in nets.values() for name in net.external_input}

    def step(self, step: ExecutionStep, outer: Location) -> list[OperatorDef]:
        """Return the operators that a step becomes; none for a step that cannot be translated, which is reported."""
        here = outer.enter(step.name or "step") if outer.path or step.name else outer
        reason = _unsupported(step)
        if reason:
            hint = "convert the nets of the plan one by one"
            self.diagnostics.append(Diagnostic("plan-step", reason, here, hint=hint))
            return []
        stop = step.should_stop_blob if step.HasField("should_stop_blob") else None
        # Caffe2 takes a stop blob that was never written for false.
        start = [_fill(stop, 0, TensorProto.BOOL)] if stop is not None and stop not in self._written else []
        parts = [self.step(inner, here) for inner in step.substep] or [self._net(name, here) for name in step.network]
        body = [op for part in parts for op in part]
        try:
            if stop is not None:
                return [*start, *self._until(stop, parts)]
            if not step.HasField("num_iter") or step.num_iter == 1 or not body:
                return body
            return self._times(step.num_iter, body) if step.num_iter > 0 else []
        except DecodeError:  # the operators' arguments nest messages deeper than protobuf reads
            reason = f"the step's nets and loops nest deeper than {MAX_BODIES} bodies"
            self.diagnostics.append(Diagnostic("nesting", reason, here))
            return []

    def _net(self, name: str, here: Location) -> list[OperatorDef]:
        net = self.nets.get(name)
        if net is None:
            self.diagnostics.append(Diagnostic("plan-step", f"the step runs net {name!r}, which the plan lacks", here))
            return []
        ops = [new for op in net.op for new in self._replace_counter(op)]
        self._written.update(name for op in ops for name in op.output)
        return ops

    def _until(self, stop: str, parts: Sequence[Sequence[OperatorDef]]) -> list[OperatorDef]:
        """Build a loop that ends as soon as ``stop`` is true after one of the parts."""
        go = self._temporary("go")
        body: list[OperatorDef] = []
        for i, part in enumerate(reversed(parts)):
            rest = [_op("If", [go], [], **if_arguments(NetDef(name="rest", op=body)))] if i else []
            body = [*part, _op("Not", [stop], [go]), *rest]
        return [_fill(go, 1, TensorProto.BOOL), _op("While", [go], [], **while_arguments(NetDef(name="step", op=body)))]

    def _times(self, times: int, body: Sequence[OperatorDef]) -> list[OperatorDef]:
        """Build a loop of ``times`` iterations."""
        go, done, one, end = (self._temporary(name) for name in ("go", "done", "one", "end"))
        loop = NetDef(name="step", op=[*body, _op("Add", [done, one], [done]), _op("LT", [done, end], [go])])
        numbers = [_fill(name, value, TensorProto.INT64) for name, value in ((done, 0), (one, 1), (end, times))]
        return [*numbers, _fill(go, 1, TensorProto.BOOL), _op("While", [go], [], **while_arguments(loop))]

    def _replace_counter(self, op: OperatorDef) -> Iterator[OperatorDef]:
        """Replace an operator on a counter by operators on an int64 tensor of one element."""
        view = OpView(op, 0)
        if op.type == "CreateCounter":
            yield _fill(op.output[0], view.args.integer("init_count", default=0), TensorProto.INT64)
        elif op.type == "ResetCounter":
            if op.output:
                yield _op("Copy", [op.input[0]], [op.output[0]])
            yield _fill(op.input[0], view.args.integer("init_count", default=0), TensorProto.INT64)
        elif op.type == "RetrieveCount":
            yield _op("Copy", [op.input[0]], [op.output[0]])
        elif op.type in ("CountDown", "CountUp"):
            yield from self._count(op, up=op.type == "CountUp")
        else:
            yield op

    def _count(self, op: OperatorDef, *, up: bool) -> Iterator[OperatorDef]:
        """CountUp outputs the count before it; CountDown stops at zero and outputs whether it had reached zero."""
        counter, result = op.input[0], op.output[0]
        one = self._temporary("one")
        yield _fill(one, 1, TensorProto.INT64)
        if up:
            yield _op("Copy", [counter], [result])
            yield _op("Add", [counter, one], [counter])
            return
        zero, more, less = (self._temporary(name) for name in ("zero", "more", "less"))
        yield _fill(zero, 0, TensorProto.INT64)
        yield _op("LE", [counter, zero], [result])
        yield _op("Not", [result], [more])
        yield _op("Cast", [more], [less], to=TensorProto.INT64)
        yield _op("Sub", [counter, less], [counter])

    def _temporary(self, name: str) -> str:
        return f"{_TEMPORARY}{name}_{next(self._numbers)}"


def _unsupported(step: ExecutionStep) -> str:
    """Return why a step has no equivalent in a net; the empty string if it has one."""
    reasons = {
        "the step has both num_iter and should_stop_blob, which exclude each other": step.HasField("should_stop_blob")
        and step.HasField("num_iter"),
        "the step has only_once, which Caffe2 does not support": step.HasField("only_once"),
        "the step runs its substeps concurrently": step.concurrent_substeps and len(step.substep) > 1,
        f"the step runs in {step.num_concurrent_instances} concurrent copies": step.num_concurrent_instances > 1,
        "the step runs in a workspace of its own": step.create_workspace,
        f"the step runs the net {step.report_net!r} periodically to report": step.report_net,
        f"the step runs every {step.run_every_ms} ms": step.run_every_ms,
        "the step has both nets and substeps": step.network and step.substep,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _fill(name: str, value: int, dtype: int) -> OperatorDef:
    return _op("ConstantFill", [], [name], shape=[1], dtype=dtype, value=value)


def _op(op_type: str, inputs: Sequence[str], outputs: Sequence[str], **args: int | list[int] | NetDef) -> OperatorDef:
    return make_operator(op_type, inputs, outputs, args)


def _bodies(op: OperatorDef) -> Iterator[NetDef]:
    """Yield the bodies that run in the workspace of their operator."""
    control = control_of(OpView(op, 0))
    if control is not None and control.scope is BodyScope.SHARED:
        yield from (body.net for body in control.bodies.values())


def _written(ops: Sequence[OperatorDef]) -> Iterator[str]:
    """Yield the names of the blobs that operators and their bodies write."""
    for op in ops:
        yield from op.output
        for body in _bodies(op):
            yield from _written(body.op)


def _read_first(net: NetDef) -> list[str]:
    """Return the blobs that the net, including its bodies, reads before it writes them."""
    written: set[str] = set()
    first: dict[str, None] = {}

    def walk(ops: Sequence[OperatorDef]) -> None:
        for op in ops:
            first.update((name, None) for name in op.input if name not in written)
            for body in _bodies(op):
                walk(body.op)
            written.update(op.output)

    walk(net.op)
    return list(first)

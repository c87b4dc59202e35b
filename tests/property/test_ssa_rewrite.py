"""Random nets mean the same before and after ssa_rewrite.

An operator is the hash of its type and of what it reads, so that equal results prove equal dataflow. Workspaces have
the scope rules of real Caffe2: branches and loops run in the workspace of their operator, a Do in one that sees only
what it binds, a step net in a child workspace with views of the linked rows.
"""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

from hypothesis import HealthCheck, assume, given, reject, settings
from hypothesis import strategies as st
from support.devices.device_runs import mix

from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.ssa import check_dataflow, get_ssa, get_undefined_blobs, ssa_rewrite

TRIPS = 3
STEPS = 3
INPUTS = ("x", "y", "c")
POOL = (*INPUTS, "a", "b", "d", "e")


class Undefined(Exception):  # noqa: N818  # a state of the net that is run, not an error of the test
    pass


class Workspace(Protocol):
    def get(self, name: str) -> object: ...
    def set(self, name: str, value: object) -> None: ...


class Plain:
    def __init__(self, blobs: dict[str, object] | None = None) -> None:
        self.blobs = blobs if blobs is not None else {}

    def get(self, name: str) -> object:
        if name not in self.blobs:
            raise Undefined(name)
        return self.blobs[name]

    def set(self, name: str, value: object) -> None:
        self.blobs[name] = value


@dataclass
class Bound:
    outer: Workspace
    names: dict[str, str]
    local: Plain

    def get(self, name: str) -> object:
        return self.outer.get(self.names[name]) if name in self.names else self.local.get(name)

    def set(self, name: str, value: object) -> None:
        if name in self.names:
            self.outer.set(self.names[name], value)
        else:
            self.local.set(name, value)


@dataclass
class Step:
    outer: Workspace
    views: dict[str, tuple[list[object], int]]
    local: Plain = field(default_factory=Plain)

    def get(self, name: str) -> object:
        if name in self.views:
            rows, row = self.views[name]
            return rows[row]
        return self.local.get(name) if name in self.local.blobs else self.outer.get(name)

    def set(self, name: str, value: object) -> None:
        if name in self.views:
            rows, row = self.views[name]
            rows[row] = value
        else:
            self.local.set(name, value)


def run(net: NetDef, workspace: Workspace) -> None:
    for index, proto in enumerate(net.op):
        op = OpView(proto, index)
        RUNNERS.get(op.type, plain)(op, workspace)


def plain(op: OpView, workspace: Workspace) -> None:
    if op.type == "ScatterAssign":
        assert op.inputs[0] == op.outputs[0], "real Caffe2 refuses this"
    values = [workspace.get(name) for name in op.inputs]
    for position, name in enumerate(op.outputs):
        workspace.set(name, values[0] if op.type == "Copy" else mix(op.type, position, values))


def branch(op: OpView, workspace: Workspace) -> None:
    body = op.args.net("then_net" if mix(workspace.get(op.inputs[0])) % 2 else "else_net", None)
    if body is not None:
        run(body, workspace)


def create_scope(op: OpView, workspace: Workspace) -> None:
    workspace.set(op.outputs[0], [])


def loop(op: OpView, workspace: Workspace) -> None:
    for name in op.inputs:
        workspace.get(name)
    cond, body = op.args.net("cond_net", None), op.args.net("loop_net")
    assert body is not None
    for trip in range(TRIPS + 1):
        if cond is not None:
            run(cond, workspace)
        if trip == TRIPS or mix(workspace.get(op.inputs[0]), trip) % 4 == 0:
            return
        run(body, workspace)


def do(op: OpView, workspace: Workspace) -> None:
    outer = op.inputs[:-1] + op.outputs[:-1]
    positions, inner = op.args.integers("outer_blobs_idx"), op.args.texts("inner_blobs")
    names = {name: outer[position] for name, position in zip(inner, positions, strict=True)}
    assert len(set(names.values())) == len(names)
    assert set(names.values()) == set(outer)
    assert len(set(op.inputs)) == len(op.inputs)
    assert len(set(op.outputs)) == len(op.outputs)
    assert op.inputs[-1] == op.outputs[-1]
    for name in op.inputs:
        workspace.get(name)
    stack = workspace.get(op.inputs[-1])
    assert isinstance(stack, list)
    reuse = op.args.flag("reuse_workspace", default=False)
    if not (reuse and stack):
        stack.append(Plain())
    net = op.args.net("net")
    assert net is not None
    run(net, Bound(workspace, names, stack[-1]))


def recurrent(op: OpView, workspace: Workspace) -> None:
    """Run an operator of one state: op.inputs[1] is its initial value; inputs[0] the sequence."""
    (state,) = op.args.texts("recurrent_states")
    rows: list[object] = [workspace.get(op.inputs[1]), *([None] * STEPS)]
    sequence = [mix(workspace.get(op.inputs[0]), step) for step in range(STEPS)]
    workspace.set(state, rows)
    tables = {state: rows, op.inputs[0]: sequence}
    links = list(
        zip(
            op.args.texts("link_internal"), op.args.texts("link_external"), op.args.integers("link_offset"), strict=True
        )
    )
    net = op.args.net("step_net")
    assert net is not None
    for step in range(STEPS):
        views = {inner: (tables[outer], step + offset) for inner, outer, offset in links}
        run(net, Step(workspace, views))
    for source, target, offset in zip(
        op.args.texts("alias_src"), op.args.texts("alias_dst"), op.args.integers("alias_offset"), strict=True
    ):
        assert source == state
        assert target in op.outputs
        workspace.set(target, mix("rows", rows[offset:]))


RUNNERS = {"If": branch, "While": loop, "Do": do, "CreateScope": create_scope, "RecurrentNetwork": recurrent}


class Builder:
    """Draws a net; ``sure`` are the blobs that surely hold a value, ``maybe`` those that may hold one."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.serial = 0

    def pick(self, names: set[str]) -> str:
        return self.draw(st.sampled_from(sorted(names)))

    def read(self, sure: set[str], maybe: set[str]) -> str:
        rare = maybe - sure
        return self.pick(rare) if rare and self.draw(st.integers(0, 5)) == 0 else self.pick(sure)

    def net(self, sure: set[str], maybe: set[str], depth: int, size: int, pool: tuple[str, ...]) -> NetDef:
        net = NetDef()
        for _ in range(self.draw(st.integers(1, size))):
            kinds = ["plain"] * 4 + ["scatter"]
            if depth:
                kinds += ["if", "if", "while", "do", "do", "recurrent"]
            getattr(self, "_" + self.draw(st.sampled_from(kinds)))(net, sure, maybe, depth, pool)
        return net

    def _plain(self, net: NetDef, sure: set[str], maybe: set[str], _depth: int, pool: tuple[str, ...]) -> None:
        inputs = [self.read(sure, maybe) for _ in range(self.draw(st.integers(1, 2)))]
        outputs = self.draw(st.lists(st.sampled_from(pool), min_size=1, max_size=2, unique=True))
        net.op.add(type=self.draw(st.sampled_from(["Sum", "Relu"])), input=inputs, output=outputs)
        sure.update(outputs)
        maybe.update(outputs)

    def _scatter(self, net: NetDef, sure: set[str], maybe: set[str], _depth: int, _pool: tuple[str, ...]) -> None:
        name = self.read(sure, maybe)
        net.op.add(type="ScatterAssign", input=[name, self.read(sure, maybe)], output=[name])

    def _if(self, net: NetDef, sure: set[str], maybe: set[str], depth: int, pool: tuple[str, ...]) -> None:
        op = net.op.add(type="If", input=[self.read(sure, maybe)])
        results = []
        for name in ("then_net", "else_net")[: self.draw(st.integers(1, 2))]:
            here, may = set(sure), set(maybe)
            op.arg.add(name=name).n.CopyFrom(self.net(here, may, depth - 1, 3, pool))
            results.append((here, may))
        for _, may in results:
            maybe.update(may)
        if len(results) == 2:
            sure.update(results[0][0] & results[1][0])
        self._declare(op, sure)

    def _while(self, net: NetDef, sure: set[str], maybe: set[str], depth: int, pool: tuple[str, ...]) -> None:
        cond = self.pick(sure)
        op = OperatorDef(type="While", input=[cond])
        here, may = set(sure), set(maybe)
        if self.draw(st.booleans()):
            body = self.net(here, may, depth - 1, 2, pool)
            body.op.add(type="LT", input=[self.read(here, may)], output=[cond])
            op.arg.add(name="cond_net").n.CopyFrom(body)
        op.arg.add(name="loop_net").n.CopyFrom(self.net(here, may, depth - 1, 3, pool))
        maybe.update(may)
        net.op.append(op)
        self._declare(net.op[-1], sure)

    def _declare(self, op: OperatorDef, sure: set[str]) -> None:
        if self.draw(st.booleans()):
            op.output.extend(sorted({name for arg in op.arg for inner in arg.n.op for name in inner.output} & sure))

    def _do(self, net: NetDef, sure: set[str], maybe: set[str], depth: int, _pool: tuple[str, ...]) -> None:
        self.serial += 1
        stack = f"stack{self.serial}"
        inputs = self.draw(st.lists(st.sampled_from(sorted(sure)), max_size=2, unique=True))
        outputs = self.draw(st.lists(st.sampled_from(POOL), min_size=1, max_size=2, unique=True))
        outer = list(dict.fromkeys([*inputs, *outputs]))
        inner = [self.draw(st.sampled_from([name, f"{name}_in"])) for name in outer]
        assume(len(set(inner)) == len(inner))
        bound = dict(zip(outer, inner, strict=True))
        here = {bound[name] for name in outer if name in sure} | {"local"}
        body = NetDef()
        body.op.add(type="Fill", output=["local"])
        may = set(here)
        body.MergeFrom(self.net(here, may, depth - 1, 3, (*inner, "local", "other")))
        for name in outputs:
            if name not in inputs and self.draw(st.booleans()):
                body.op.add(type="Last", input=[self.pick(here)], output=[bound[name]])
                here.add(bound[name])
        everything = [*inputs, *outputs]
        positions = [everything.index(name) for name in outer]
        net.op.add(type="CreateScope", output=[stack])
        op = net.op.add(type="Do", input=[*inputs, stack], output=[*outputs, stack])
        op.arg.add(name="net").n.CopyFrom(body)
        op.arg.add(name="inner_blobs", strings=[name.encode() for name in inner])
        op.arg.add(name="outer_blobs_idx", ints=positions)
        sure.update(name for name in outer if bound[name] in here)
        maybe.update(name for name in outer if bound[name] in may)

    def _recurrent(self, net: NetDef, sure: set[str], maybe: set[str], depth: int, pool: tuple[str, ...]) -> None:
        state = self.draw(st.sampled_from(["s_states", "r_states"]))
        inputs = [self.pick(sure), self.pick(sure)]
        here = {*sure, "row", "prev"}
        local = ("row2", "out", "prev")
        body = self.net(here, set(here), depth - 1, 3, local)
        body.op.add(type="Cell", input=["prev", "row", self.pick(here)], output=["out"])
        targets = self.draw(st.lists(st.sampled_from(pool), min_size=1, max_size=2, unique=True))
        op = net.op.add(type="RecurrentNetwork", input=inputs, output=targets)
        op.arg.add(name="recurrent_states", strings=[state.encode()])
        op.arg.add(name="link_internal", strings=[b"prev", b"out", b"row"])
        op.arg.add(name="link_external", strings=[state.encode(), state.encode(), inputs[0].encode()])
        op.arg.add(name="link_offset", ints=[0, 1, 0])
        op.arg.add(name="alias_src", strings=[state.encode()] * len(targets))
        op.arg.add(name="alias_dst", strings=[name.encode() for name in targets])
        op.arg.add(name="alias_offset", ints=[1, -1][: len(targets)])
        step = op.arg.add(name="step_net")
        step.n.CopyFrom(body)
        sure.update(targets)
        maybe.update(targets)


@st.composite
def nets(draw: st.DrawFn) -> NetDef:
    sure = set(INPUTS)
    net = Builder(draw).net(sure, set(sure), 2, 7, POOL)
    net.external_input.extend(INPUTS)
    written = sorted(sure)
    net.external_output.extend(draw(st.lists(st.sampled_from(written), min_size=1, unique=True)))
    return net


def start() -> Plain:
    return Plain({name: mix("input", name) for name in INPUTS})


def outputs(net: NetDef) -> list[object]:
    workspace = start()
    run(copy.deepcopy(net), workspace)
    return [workspace.get(name) for name in net.external_output]


CONTROL = frozenset({"If", "While", "Do", "RecurrentNetwork"})


def one_writer(net: NetDef, top: bool) -> None:
    plain = Counter(name for op in net.op if op.type not in CONTROL for name in op.output)
    for op in net.op:
        if op.type == "ScatterAssign":
            plain[op.output[0]] -= 1
        for arg in op.arg:
            if arg.HasField("n"):
                one_writer(arg.n, top=False)
    assert all(count <= 1 for count in plain.values()), plain
    if top:
        written: dict[str, list[OperatorDef]] = {}
        for op in net.op:
            for name in op.output:
                written.setdefault(name, []).append(op)
        assert not set(written) & set(net.external_input)
        for name, (first, *others) in written.items():
            if first.type not in CONTROL and first.type != "CreateScope":
                assert len(others) <= 1, name
                assert all(name in op.input for op in others), name


@settings(
    max_examples=400,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(nets())
def test_rewritten_net_means_the_same(net: NetDef) -> None:
    assume(not check_dataflow(net))
    try:
        expected = outputs(net)
    except Undefined:
        reject()
    before = net.SerializeToString(deterministic=True)
    rewritten, _ = ssa_rewrite(net)
    assert net.SerializeToString(deterministic=True) == before
    assert list(rewritten.external_input) == list(net.external_input)
    one_writer(rewritten, top=True)
    assert outputs(rewritten) == expected
    assert not check_dataflow(rewritten)
    again, _ = ssa_rewrite(rewritten)
    assert again == rewritten
    assert get_undefined_blobs(get_ssa(rewritten)[0]) <= set(INPUTS)


@settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(nets())
def test_a_net_that_declares_no_inputs_finds_any_blob_of_its_workspace(net: NetDef) -> None:
    del net.external_input[:]
    given = {name: mix("input", name) for name in POOL}

    def values(of: NetDef) -> list[object]:
        workspace = Plain(dict(given))
        run(copy.deepcopy(of), workspace)
        return [workspace.get(name) for name in of.external_output]

    try:
        expected = values(net)
    except Undefined:  # of a blob inside a Do
        reject()
    rewritten, _ = ssa_rewrite(net)
    one_writer(rewritten, top=False)
    assert values(rewritten) == expected
    assert ssa_rewrite(rewritten)[0] == rewritten

"""The RecurrentNetwork operators that Caffe2's own helper built: ours are given the same cells and links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest
from conformance.corpus import find_cases, read_net
from google.protobuf import text_format
from support.paths import ROOT

from caffe2_bridge.builder import Net, recurrent_net
from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.proto.caffe2_pb2 import Argument, NetDef, OperatorDef

SETS = {"recompute_blobs_on_backward"}  # Caffe2 makes these of sets: their order is none


def operators(net: NetDef) -> Iterator[OperatorDef]:
    for op in net.op:
        yield op
        for arg in op.arg:
            if arg.HasField("n"):
                yield from operators(arg.n)


@cache
def recorded() -> dict[str, OperatorDef]:
    """Return each different operator once, by the case in which it is found first."""
    refs = [ref for ref in find_cases(ROOT / "tests" / "golden") if may_recur(ref.path)]
    nets = [(ref.id, read_net(ref)) for ref in refs]
    nets += [
        (f"models/char_rnn/{path.name}", NetDef.FromString(path.read_bytes()))
        for path in sorted((ROOT / "models" / "char_rnn").glob("*_net.pb"))
        if path.name != "init_net.pb"
    ]
    seen: dict[bytes, tuple[str, OperatorDef]] = {}
    for name, net in nets:
        for op in operators(net):
            if op.type == "RecurrentNetwork" and is_as_built(op):
                seen.setdefault(op.SerializeToString(deterministic=True), (name, op))
    return {f"{name}-{index}": op for index, (name, op) in enumerate(seen.values())}


def may_recur(path: Path) -> bool:
    """Whether it is of the corpus (what is recorded besides is written by hand), and may hold such an operator."""
    if "recorded" in path.parts:
        return False
    return path.parent.name in {"nets", "models"} or "models" in path.parts or path.stem == "RecurrentNetwork"


@dataclass(frozen=True)
class Parts:
    """What a recorded operator was built from."""

    cell: NetDef
    scope: str
    inputs: list[tuple[str, str]]
    initial: list[tuple[str, str]]
    links: dict[str, str]


def taken_apart(op: OperatorDef) -> Parts:
    args = OpView(op, 0).args
    states = args.texts("recurrent_states")
    names = list(
        zip(args.texts("link_external"), args.integers("link_offset"), args.texts("link_internal"), strict=True)
    )
    linked = {(rows, offset): name for rows, offset, name in names}
    inner = [linked[rows, 0] for rows in states]
    (scope,) = {rows.removesuffix(f"/{name}_states") for rows, name in zip(states, inner, strict=True)}
    cell = args.net("step_net")
    assert cell is not None
    return Parts(
        cell=cell,
        scope=scope,
        inputs=[(name, rows) for rows, _, name in names if rows not in states],
        initial=[
            (name, op.input[index])
            for name, index in zip(inner, args.integers("initial_recurrent_state_ids"), strict=True)
        ],
        links={name: linked[rows, 1] for name, rows in zip(inner, states, strict=True)},
    )


def is_as_built(op: OperatorDef) -> bool:
    """Whether Caffe2's helper built it, and nothing took it apart.

    The helper always names the timestep: one of the corpus is written by hand. From another, Caffe2's extraction of a
    predictor took the backward step net.
    """
    args = {arg.name: arg for arg in op.arg}
    step = args.get("backward_step_net")
    return "timestep" in args and (step is None or step.HasField("n") or step.HasField("s"))


def rebuilt(op: OperatorDef, *, forward_only: bool) -> OperatorDef:
    """Return the operator that our helper makes of the recorded one's cell and links."""
    args, parts, net = OpView(op, 0).args, taken_apart(op), Net("net")
    before = parts.cell.SerializeToString()
    with net.name_scope(op.output[-1].removesuffix(f"{parts.scope}/step_workspaces").removesuffix("/")):
        recurrent_net(
            net,
            parts.cell,
            parts.inputs,
            parts.initial,
            parts.links,
            timestep=args.text("timestep"),
            scope=parts.scope,
            outputs_with_grads=args.integers("outputs_with_grads", default=(0,)),
            recompute_blobs_on_backward=args.texts("recompute_blobs_on_backward", default=()),
            forward_only=forward_only,
            step_net_as_text=any(arg.name == "step_net" and arg.HasField("s") for arg in op.arg),
        )
    assert parts.cell.SerializeToString() == before
    return net.proto.op[-1]


def comparable(arg: Argument) -> object:
    if arg.name == "enable_rnn_executor":
        return "any"  # a test of Caffe2 sets it to 0 afterwards
    if arg.name in SETS:
        return Counter(arg.strings)
    if not arg.name.endswith("step_net"):
        return text_format.MessageToString(arg)
    net = text_format.Parse(arg.s, NetDef()) if arg.HasField("s") else arg.n
    needed = {name for name in net.external_input if not is_written_first(net, name)}
    return arg.HasField("s"), net.type, needed, list(net.external_output), in_order(net)


def is_written_first(net: NetDef, name: str) -> bool:
    """Whether the step makes an input itself: Caffe2 declares blobs named ``_accum`` as inputs too."""
    return name.endswith("_accum") and any(name in op.output for op in net.op)


def in_order(net: NetDef) -> list[str]:
    """Return the operators as text, sorted where Caffe2 takes the blobs whose gradients it sums from a set."""
    found: list[str] = []
    for is_sum, ops in groupby(net.op, key=lambda op: "is_auto_gen_sum_ops:1" in op.device_option.extra_info):
        texts = [text_format.MessageToString(op).replace('name: ""\n', "") for op in ops]
        found.extend(sorted(texts) if is_sum else texts)
    return found


def assert_equal(ours: OperatorDef, theirs: OperatorDef, without: tuple[str, ...] = ()) -> None:
    assert list(ours.input) == list(theirs.input)
    assert list(ours.output) == list(theirs.output)
    expected = {arg.name: comparable(arg) for arg in theirs.arg if arg.name not in without}
    assert {arg.name: comparable(arg) for arg in ours.arg} == expected


BACKWARD = (
    "param",
    "backward_link_internal",
    "backward_link_external",
    "backward_link_offset",
    "outputs_with_grads",
    "recompute_blobs_on_backward",
    "param_grads",
    "backward_step_net",
)


def test_the_corpus_holds_what_is_to_be_compared() -> None:
    trained = sum("backward_step_net" in OpView(op, 0).args for op in recorded().values())
    assert (len(recorded()), trained) == (116, 92)


@pytest.mark.parametrize("name", sorted(recorded()))
def test_forward(name: str) -> None:
    op = recorded()[name]
    assert_equal(rebuilt(op, forward_only=True), op, BACKWARD)


@pytest.mark.parametrize(
    "name", sorted(name for name, op in recorded().items() if any(arg.name == "param" for arg in op.arg))
)
def test_backward(name: str) -> None:
    op = recorded()[name]
    assert_equal(rebuilt(op, forward_only=False), op)

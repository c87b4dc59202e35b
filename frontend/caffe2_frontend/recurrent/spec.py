"""RecurrentNetwork's arguments, read once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend.lowering.op import Op

# What only training reads.
_TRAINING_ARGS = (
    "backward_step_net", "backward_link_internal", "backward_link_external", "backward_link_offset", "param",
    "param_grads", "outputs_with_grads", "recompute_blobs_on_backward",
)  # fmt: skip
# How the steps are scheduled.
_SCHEDULING_ARGS = ("enable_rnn_executor", "rnn_executor.num_threads", "rnn_executor.max_cuda_streams")


@dataclass(frozen=True, slots=True)
class State:
    """A recurrent state: an outer blob of T + L rows, the first L of which are its initial value."""

    blob: str
    initial: int


@dataclass(frozen=True, slots=True)
class Link:
    """At step t the step net's ``internal`` is a view of rows [t + offset, t + offset + window) of ``external``."""

    internal: str
    external: str
    offset: int
    window: int


@dataclass(frozen=True, slots=True)
class Alias:
    """After the loop the outer blob ``blob`` is a view of rows [offset, end) of the state ``source``."""

    source: str
    blob: str
    offset: int


@dataclass(frozen=True, slots=True)
class RecurrentSpec:
    """One RecurrentNetwork."""

    step_net: NetDef
    timestep: str
    states: tuple[State, ...]
    links: tuple[Link, ...]
    aliases: tuple[Alias, ...]

    def reads(self) -> Iterator[Link]:
        """Links whose internal blob the step net does not write."""
        written = self.written
        return (link for link in self.links if link.internal not in written)

    def writes(self) -> Iterator[Link]:
        """Links whose internal blob the step net writes."""
        written = self.written
        return (link for link in self.links if link.internal in written)

    @property
    def written(self) -> frozenset[str]:
        """The blobs that the step net writes."""
        return frozenset(name for op in self.step_net.op for name in op.output)


def read_spec(op: Op) -> RecurrentSpec:
    """The arguments of a RecurrentNetwork; lists of unequal length are a finding."""
    op.args.ignore(*_TRAINING_ARGS, *_SCHEDULING_ARGS)
    step_net = op.args.net("step_net")
    if step_net is None or not step_net.op:
        op.unsupported("the step net is empty", code="invalid-argument")
    states = _zip(op, "recurrent_states", "initial_recurrent_state_ids")
    internal = op.args.texts("link_internal", default=())
    external = op.args.texts("link_external", default=())
    offset = op.args.integers("link_offset", default=())
    window = op.args.integers("link_window", default=()) or (1,) * len(internal)
    _same_length(op, link_internal=internal, link_external=external, link_offset=offset, link_window=window)
    source = op.args.texts("alias_src", default=())
    target = op.args.texts("alias_dst", default=())
    alias_offset = op.args.integers("alias_offset", default=())
    _same_length(op, alias_src=source, alias_dst=target, alias_offset=alias_offset)
    return RecurrentSpec(
        step_net,
        op.args.text("timestep", default="timestep"),
        tuple(State(blob, index) for blob, index in states),
        tuple(Link(*link) for link in zip(internal, external, offset, window, strict=True)),
        tuple(Alias(*alias) for alias in zip(source, target, alias_offset, strict=True)),
    )


def _zip(op: Op, names: str, ids: str) -> list[tuple[str, int]]:
    blobs = op.args.texts(names, default=())
    indices = op.args.integers(ids, default=())
    _same_length(op, **{names: blobs, ids: indices})
    return list(zip(blobs, indices, strict=True))


def _same_length(op: Op, **lists: tuple[object, ...]) -> None:
    if len({len(values) for values in lists.values()}) > 1:
        text = ", ".join(f"{name} ({len(values)})" for name, values in lists.items())
        op.unsupported(f"arguments of unequal length: {text}", code="invalid-argument")

"""What a RecurrentNetwork computes: its states, links and aliases, read from the arguments of any release."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from caffe2_bridge.netdef.views import Args, ArgumentError, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef

STATES: Final = "recurrent_states"
INITIAL_IDS: Final = "initial_recurrent_state_ids"
# Names that the releases of early 2017 had for the initial values: indices, or blobs.
OLD_INITIAL_IDS: Final = "recurrent_input_ids"
OLD_INITIAL_BLOBS: Final = "recurrent_inputs"
SCRATCHES: Final = "scratch"
ALIAS_SOURCE: Final = "alias_src"
ALIAS_TARGET: Final = "alias_dst"
ALIAS_OFFSET: Final = "alias_offset"
STEP: Final = "step_net"
TIMESTEP: Final = "timestep"


@dataclass(frozen=True, slots=True)
class State:
    """A recurrent state: an outer blob of T + L rows, the first L of which are its initial value.

    ``initial`` is the index of the operator's input with the initial value.
    """

    blob: str
    initial: int


@dataclass(frozen=True, slots=True)
class Link:
    """At step t the step net's ``internal`` is a view of rows [t + offset, t + offset + window) of ``external``."""

    internal: str
    external: str
    offset: int
    window: int = 1


@dataclass(frozen=True, slots=True)
class Alias:
    """After the loop the outer blob ``blob`` is a view of rows [offset, end) of the state ``source``."""

    source: str
    blob: str
    offset: int


@dataclass(frozen=True, slots=True)
class Scratch:
    """An outer blob of shape [T, N, size] that the operator creates: rows that the step net keeps for its gradient."""

    blob: str
    size: int


@dataclass(frozen=True, slots=True)
class RecurrentSpec:
    """One RecurrentNetwork. ``argument`` is the name of the argument with the step net."""

    argument: ClassVar[str] = STEP
    step_net: NetDef
    timestep: str
    states: tuple[State, ...]
    links: tuple[Link, ...]
    aliases: tuple[Alias, ...]
    scratches: tuple[Scratch, ...] = ()

    def reads(self) -> Iterator[Link]:
        """Return the links whose internal blob the step net does not write."""
        written = self.written
        return (link for link in self.links if link.internal not in written)

    def writes(self) -> Iterator[Link]:
        """Return the links whose internal blob the step net writes."""
        written = self.written
        return (link for link in self.links if link.internal in written)

    @property
    def written(self) -> frozenset[str]:
        """The blobs that the step net writes."""
        return frozenset(name for op in self.step_net.op for name in op.output)

    @property
    def buffer_reason(self) -> str | None:
        """Why a loop must carry more than one row of each state; None if one row suffices."""
        states = {state.blob for state in self.states}
        for link in self.links:
            if link.window != 1:
                return f"link {link.internal!r} sees a window of {link.window} rows"
            if link.offset < 0:
                return f"link {link.internal!r} has the negative offset {link.offset}"
        for link in self.writes():
            if link.external not in states:
                return f"link {link.internal!r} writes to {link.external!r}, which is not a state"
            if link.offset != 1:
                return f"link {link.internal!r} writes its state at offset {link.offset}"
        for link in self.reads():
            if link.external in states and link.offset != 0:
                return f"link {link.internal!r} reads its state at offset {link.offset}"
        return None

    @property
    def row_reason(self) -> str | None:
        """Why a step does not map one row of each state, and rows of sequences of its number, to one row of each state.

        None if it does.
        """
        blobs = [state.blob for state in self.states]
        reads, writes = list(self.reads()), list(self.writes())
        if self.buffer_reason is not None:
            return self.buffer_reason
        if any(link.offset for link in reads):
            return "the step net reads rows of other steps"
        for links in ([link.external for link in reads if link.external in blobs], [link.external for link in writes]):
            if sorted(links) != sorted(blobs):
                return "the step net does not read and write each state once"
        if len({link.internal for link in self.links}) < len(self.links) or self.scratches:
            return "a blob of the step net is rows of several blobs"
        return None

    def without_scratches(self) -> RecurrentSpec:
        """Return the same without scratches: what is linked to them is a blob of the step net alone."""
        names = {scratch.blob for scratch in self.scratches}
        links = tuple(link for link in self.links if link.external not in names)
        return replace(self, links=links, scratches=())


def read_spec(op: OpView, first: int = 0) -> RecurrentSpec:
    """Read the arguments of a RecurrentNetwork. Raises ArgumentError where lists have different lengths.

    ``first`` is the index of the operator's input that is the sequence; those of initial states count from it.
    """
    args = op.args
    step_net = args.net(STEP)
    if step_net is None or not step_net.op:
        raise ArgumentError("the step net is empty")
    return RecurrentSpec(
        step_net,
        args.text(TIMESTEP, TIMESTEP),
        _states(op, first),
        read_links(args, "link"),
        read_aliases(args, "alias"),
        read_scratches(args, SCRATCHES),
    )


def _states(op: OpView, first: int) -> tuple[State, ...]:
    args = op.args
    if INITIAL_IDS not in args and OLD_INITIAL_BLOBS in args:
        args.ignore("recurrent_sizes", OLD_INITIAL_IDS)
        blobs, names = args.texts(STATES, ()), args.texts(OLD_INITIAL_BLOBS)
        _require_same_length({STATES: blobs, OLD_INITIAL_BLOBS: names})
        missing = [name for name in names if name not in op.inputs]
        if missing:
            raise ArgumentError(f"the initial state {missing[0]!r} must be among the inputs")
        return tuple(State(blob, op.inputs.index(name) - first) for blob, name in zip(blobs, names, strict=True))
    ids = OLD_INITIAL_IDS if INITIAL_IDS not in args and OLD_INITIAL_IDS in args else INITIAL_IDS
    states = tuple(State(*pair) for pair in _pairs(args, STATES, ids))
    require_operands(op, ids, [state.initial for state in states], first)
    return states


def require_operands(op: OpView, name: str, indices: Sequence[int], first: int) -> None:
    """Raise ArgumentError unless all indices that an argument lists are those of inputs, counted from ``first``.

    A gradient operator of Caffe2 takes a negative one for the gradient of an output, and sizes from that.
    """
    count = len(op.inputs) - first
    outside = [index for index in indices if not 0 <= index < count]
    if outside:
        raise ArgumentError(f"{name} must list indices of inputs, from 0 to {count - 1}, not {outside[0]}")


def initial_ids(op: OpView, first: int = 0) -> tuple[int, ...]:
    """Return the indices of inputs with initial states, whether or not they fit the states; ``first`` as above."""
    args = op.args
    for name in (INITIAL_IDS, OLD_INITIAL_IDS):
        if name in args:
            return args.integers(name)
    names = args.texts(OLD_INITIAL_BLOBS, ())
    return tuple(i for i, name in enumerate(op.inputs[first:]) if name in names)


def is_early(args: Args) -> bool:
    """Whether an operator is one of early 2017: its gradient operator has one gradient of an output, the first."""
    return OLD_INITIAL_BLOBS in args or OLD_INITIAL_IDS in args


def read_links(args: Args, kind: str) -> tuple[Link, ...]:
    """Return links of ``kind``: ``link`` or ``backward_link``. Raises ArgumentError if lists differ in length."""
    names = [f"{kind}_{part}" for part in ("internal", "external", "offset", "window")]
    internal, external = (args.texts(name, ()) for name in names[:2])
    offset = args.integers(names[2], ())
    window = args.integers(names[3], ()) or (1,) * len(internal)
    _require_same_length(dict(zip(names, (internal, external, offset, window), strict=True)))
    return tuple(Link(*link) for link in zip(internal, external, offset, window, strict=True))


def link_names(args: Args, kind: str) -> tuple[tuple[str, str], ...]:
    """Return the internal and external blobs of the links of ``kind``, whatever their offsets."""
    return tuple(zip(args.texts(f"{kind}_internal", ()), args.texts(f"{kind}_external", ()), strict=False))


def read_aliases(args: Args, kind: str) -> tuple[Alias, ...]:
    """Return aliases of ``kind``: ``alias`` or ``backward_alias``. Raises ArgumentError if lists differ in length."""
    source, target, offset = (f"{kind}_{part}" for part in ("src", "dst", "offset"))
    lists = {source: args.texts(source, ()), target: args.texts(target, ()), offset: args.integers(offset, ())}
    _require_same_length(lists)
    return tuple(Alias(*alias) for alias in zip(*lists.values(), strict=True))


def read_scratches(args: Args, names: str) -> tuple[Scratch, ...]:
    """Return the scratches that an argument names. Raises ArgumentError where lists differ in length."""
    return tuple(Scratch(*pair) for pair in _pairs(args, names, "scratch_sizes"))


def _pairs(args: Args, names: str, numbers: str) -> list[tuple[str, int]]:
    texts, values = args.texts(names, ()), args.integers(numbers, ())
    _require_same_length({names: texts, numbers: values})
    return list(zip(texts, values, strict=True))


def _require_same_length(lists: dict[str, tuple[Any, ...]]) -> None:
    if len({len(values) for values in lists.values()}) > 1:
        text = ", ".join(f"{name} ({len(values)})" for name, values in lists.items())
        raise ArgumentError(f"arguments of unequal length: {text}")

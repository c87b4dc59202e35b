"""What an operator with bodies is, in terms that every analysis and rewrite shares.

Each operator with bodies has one file in this package: a subclass of :class:`ControlOperator` that reads its arguments.
Analyses ask a :class:`ControlOperator` and know no operator types. From its scope rule (:class:`BodyScope`), from how
often its bodies run (:class:`Runs`), and from the names bound at entry (:class:`Formal`) and at the end
(:class:`Result`) follow the reads and writes of blobs, their versions, devices and names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import ClassVar

from google.protobuf import text_format

from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.proto.caffe2_pb2 import Argument, NetDef


class BodyScope(Enum):
    """The workspace in which a body runs.

    ``SHARED``: that of the operator; the body reads and writes its blobs. ``NESTED``: one of its own inside that of the
    operator; the body reads the blobs around it and writes its own. ``SEALED``: one of its own, in which it finds the
    blobs that the operator binds, and no other.
    """

    SHARED = "shared"
    NESTED = "nested"
    SEALED = "sealed"


class Runs(Enum):
    """How often the bodies of an operator run.

    ``BRANCH``: one of them, or none. ``ONCE``: each once. ``LOOP``: in turn, again and again, the first of them at
    least up to the test that ends the loop.
    """

    BRANCH = "branch"
    ONCE = "once"
    LOOP = "loop"


class Role(Enum):
    """What an operator does with a body.

    ``RUN``: it runs it. ``PAST``: its forward operator has run it, and its blobs can be read. ``CARRIED``: it only
    carries it along, for its gradient operator.
    """

    RUN = "run"
    PAST = "past"
    CARRIED = "carried"


class Place(Enum):
    """Where an operand, or a blob that an operator binds, is.

    ``HOST``: on the host, whatever the operator's device. ``OPERATOR``: on the operator's device. ``SOURCE``: where the
    blob is whose value it holds. ``ANYWHERE``: it does not matter to the operator.
    """

    HOST = "host"
    OPERATOR = "operator"
    SOURCE = "source"
    ANYWHERE = "anywhere"


@dataclass(frozen=True, slots=True)
class Formal:
    """A name that the operator binds at the entry of a body.

    ``source`` is the outer blob whose value it holds, None where it holds the operator's own, such as the number of the
    iteration. ``is_view``: it is that blob, or rows of it, under another name; a write reaches the blob.
    """

    name: str
    place: Place = Place.SOURCE
    source: str | None = None
    is_view: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """What becomes of a blob of a body at the end of the body.

    It is the value of the formal ``formal`` in the next iteration, and of the outer blob ``output`` after the last. It
    has the place of its formal; without one it is on the host.
    """

    name: str
    formal: Formal | None = None
    output: str | None = None


@dataclass(frozen=True, slots=True)
class Body:
    """A net in an argument of an operator. ``net`` is the argument's own, or parsed where the argument is text."""

    argument: str
    net: NetDef
    role: Role = Role.RUN
    formals: tuple[Formal, ...] = ()
    results: tuple[Result, ...] = ()


class ControlOperator:
    """A typed, read-only view of an operator with bodies. Reading raises ArgumentError where an argument is wrong.

    Class attributes, which each operator sets: ``types`` are the operator types that it reads, ``arguments`` its bodies
    by argument in the order in which they first run (true: the argument is required), ``scope`` and ``runs`` what holds
    for all of them. Methods and properties have defaults for operators without the feature.
    """

    types: ClassVar[tuple[str, ...]]
    arguments: ClassVar[Mapping[str, bool]]
    scope: ClassVar[BodyScope]
    runs: ClassVar[Runs]
    # Whether it computes on a device of its own; else it runs on the host and hands its operands to its bodies.
    computes: ClassVar[bool] = False
    # Arguments whose strings name blobs of the bodies, and outer blobs that the operator creates: no reads.
    own_arguments: ClassVar[frozenset[str]] = frozenset()
    # The body to create where a branch that does nothing must leave a copy; a key of ``arguments``.
    optional_branch: ClassVar[str | None] = None
    # Arguments that only training reads.
    training_arguments: ClassVar[frozenset[str]] = frozenset()
    # Whether operators of these types run forward; else they compute gradients.
    is_forward: ClassVar[bool] = True

    def __init__(self, op: OpView) -> None:
        self.op = op

    @property
    def type(self) -> str:
        """The operator type."""
        return self.op.type

    @cached_property
    def bodies(self) -> dict[str, Body]:
        """The bodies by argument, in the order in which they first run."""
        nets = {argument: self._net(argument) for argument in self.arguments}
        return {argument: self._body(argument, net) for argument, net in nets.items() if net is not None}

    def _net(self, argument: str) -> NetDef | None:
        arg = self.op.args.raw(argument)
        given = arg is not None and (arg.HasField("n") or arg.HasField("s"))
        return self.op.args.net(argument) if given or self.arguments[argument] else None

    def _body(self, argument: str, net: NetDef) -> Body:
        return Body(argument, net)

    @property
    def condition(self) -> str | None:
        """The blob that the operator looks at on the host before it runs a body; None where it has none."""
        return None

    @property
    def stacks(self) -> tuple[str, ...]:
        """Stacks of workspaces, which the operator changes."""
        return ()

    @property
    def objects(self) -> tuple[str, ...]:
        """The outputs that are objects and not tensors."""
        return self.stacks

    @property
    def keeps_blobs(self) -> bool:
        """Whether a body may find blobs that nothing in it wrote: an earlier run left them in its workspace."""
        return False

    @property
    def own_names(self) -> frozenset[str]:
        """Names that mean blobs of the bodies' own in every body, whatever is around the operator."""
        return frozenset(formal.name for body in self.bodies.values() for formal in body.formals)

    @property
    def fills(self) -> tuple[str, ...]:
        """Outer blobs that the operator creates before its bodies run, which see them under the same names."""
        return ()

    @property
    def writes(self) -> tuple[str, ...]:
        """Outer blobs that the operator writes itself, whatever its bodies do; those of its outputs are among them."""
        return self.op.outputs if self.scope is BodyScope.NESTED else ()

    @property
    def updates(self) -> tuple[str, ...]:
        """Outer blobs of which the operator writes some rows itself; the others stay."""
        return ()

    @property
    def may_read(self) -> tuple[str, ...]:
        """Outer blobs that arguments name, and that may be absent."""
        return ()

    @property
    def creates(self) -> tuple[str, ...]:
        """Outer blobs that the operator creates on its device, whether or not they are among its outputs."""
        return ()

    @property
    def viewed(self) -> tuple[str, ...]:
        """Outer blobs on the operator's device of which bodies that it runs have views."""
        formals = (formal for body in self.bodies.values() if body.role is Role.RUN for formal in body.formals)
        return tuple(f.source for f in formals if f.is_view and f.source and f.place is Place.OPERATOR)

    @property
    def overlapping(self) -> frozenset[str]:
        """Blobs of a body that share memory with another of its blobs: all their versions keep one name."""
        return frozenset()

    def places(self) -> tuple[tuple[Place, ...], tuple[Place, ...]]:
        """Return where the inputs and the outputs are."""
        return (Place.ANYWHERE,) * len(self.op.inputs), (Place.ANYWHERE,) * len(self.op.outputs)

    def rename_arguments(self, found: Callable[[str], str], left: Callable[[str], str]) -> None:
        """Rename outer blobs in arguments other than bodies, in the operator's protobuf.

        ``found`` gives the new name of the value that the operator finds under a name, ``left`` that of the value that
        it leaves there.
        """

    def bind_operands(self, inputs: list[str], outputs: list[str]) -> None:
        """Adapt arguments that refer to operands by index to new lists of operands, in the operator's protobuf."""

    def why_fixed(self, name: str) -> str | None:
        """Return why an outer blob must keep its name; None where it need not."""
        del name
        return None

    def is_text(self, argument: str) -> bool:
        """Whether a body is written as protobuf text, as older releases do."""
        return any(arg.name == argument and arg.HasField("s") for arg in self.op.proto.arg)

    def store(self, argument: str) -> None:
        """Write a body that was edited back where it is written as text."""
        for arg in self.op.proto.arg:
            if arg.name == argument and arg.HasField("s"):
                write_text(arg, self.bodies[argument].net)


def write_text(arg: Argument, net: NetDef) -> None:
    """Write a net as protobuf text into a string argument; a text of an equal net stays."""
    if text_format.Parse(arg.s, NetDef()) != net:
        arg.s = text_format.MessageToString(net).encode()

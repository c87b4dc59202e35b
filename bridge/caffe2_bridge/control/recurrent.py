"""RecurrentNetwork: a net that runs once for each row of a sequence, on views of rows of outer blobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, ClassVar, Final

from caffe2_bridge.control.backward_spec import (
    BACKWARD_ALIAS,
    BACKWARD_LINK,
    BACKWARD_SCRATCHES,
    BACKWARD_STEP,
    GRADIENT_SUFFIX,
    OLD_PARAMETER_GRADIENTS,
    RECOMPUTED,
)
from caffe2_bridge.control.description import Body, BodyScope, ControlOperator, Formal, Place, Role, Runs
from caffe2_bridge.control.recurrent_spec import (
    ALIAS_OFFSET,
    ALIAS_SOURCE,
    ALIAS_TARGET,
    INITIAL_IDS,
    OLD_INITIAL_BLOBS,
    SCRATCHES,
    STATES,
    STEP,
    TIMESTEP,
    Alias,
    Link,
    RecurrentSpec,
    State,
    initial_ids,
    is_early,
    link_names,
    read_links,
    read_spec,
)
from caffe2_bridge.proto.caffe2_pb2 import NetDef

BACKWARD_EXTERNAL: Final = "backward_link_external"
RENAME_SUFFIX: Final = ".rename"
# What only training reads, and how steps are scheduled.
_TRAINING: Final = (
    BACKWARD_STEP, "backward_link_internal", BACKWARD_EXTERNAL, "backward_link_offset", "param", "param_grads",
    "param_gradient", "outputs_with_grads", RECOMPUTED, "backward_alias_src", "backward_alias_dst",
    "backward_alias_offset", "backward_scratch", "input_gradient_ids",
)  # fmt: skip
SCHEDULING: Final = ("enable_rnn_executor", "rnn_executor.num_threads", "rnn_executor.max_cuda_streams")


class StepOperator(ControlOperator):
    """What RecurrentNetwork and its gradient operator share: a step net, links, and blobs named in arguments."""

    arguments: ClassVar = {STEP: True, BACKWARD_STEP: False}
    scope = BodyScope.NESTED
    runs = Runs.LOOP
    computes = True
    own_arguments = frozenset(
        {ALIAS_SOURCE, ALIAS_TARGET, STATES, SCRATCHES, "link_internal", "link_external"}
        | {"backward_link_internal", BACKWARD_EXTERNAL, "param_grads", RECOMPUTED}
        | {BACKWARD_SCRATCHES, f"{BACKWARD_ALIAS}_src", f"{BACKWARD_ALIAS}_dst", "param", OLD_PARAMETER_GRADIENTS}
    )
    # What the operator does with each body.
    roles: ClassVar[dict[str, Role]]

    def _body(self, argument: str, net: NetDef) -> Body:
        kind = "link" if argument == STEP else BACKWARD_LINK
        rows = [Formal(inner, Place.OPERATOR, outer, is_view=True) for inner, outer in link_names(self.op.args, kind)]
        return Body(argument, net, self.roles[argument], (Formal(self.timestep, Place.HOST), *rows))

    @cached_property
    def timestep(self) -> str:
        """The name that the step net has for the number of the step, int32 [1]."""
        return self.op.args.text(TIMESTEP, TIMESTEP)

    @cached_property
    def states(self) -> tuple[str, ...]:
        """The outer blobs of the states."""
        return self.op.args.texts(STATES, ())

    @cached_property
    def alias_targets(self) -> tuple[str, ...]:
        """The outer blobs that are views of rows of states after the loop."""
        return self.op.args.texts(ALIAS_TARGET, ())

    @property
    def alias_sources(self) -> tuple[str, ...]:
        """The states that they are views of."""
        return self.op.args.texts(ALIAS_SOURCE, ())

    @property
    def scratches(self) -> tuple[str, ...]:
        """The outer blobs that keep rows of the step net, in the format of early 2017."""
        return self.op.args.texts(SCRATCHES, ())

    @property
    def links(self) -> tuple[tuple[str, str], ...]:
        """Blobs of the step net with the outer blobs that they are rows of."""
        return link_names(self.op.args, "link")

    @property
    def step_links(self) -> tuple[Link, ...]:
        """The links of the step net. Raises ArgumentError where lists have different lengths."""
        return read_links(self.op.args, "link")

    @property
    def backward_links(self) -> tuple[tuple[str, str], ...]:
        """The same of the backward step net."""
        return link_names(self.op.args, BACKWARD_LINK)

    def linked_to(self, argument: str) -> tuple[str, ...]:
        """Return the outer blobs of the links whose blobs a body writes; of links of one blob the last holds."""
        body = self.bodies.get(argument)
        written = {name for op in body.net.op for name in op.output} if body is not None else ()
        return tuple(dict.fromkeys(outer for inner, outer in dict(self.body_links).items() if inner in written))

    @property
    def body_links(self) -> tuple[tuple[str, str], ...]:
        """Blobs of the body that the operator runs, with the outer blobs that they are rows of."""
        return self.links

    @property
    def own_names(self) -> frozenset[str]:
        """Names from links, the step's number, and the memory planner's renames."""
        renamed = (self.op.args.text(name) for name in self.op.args if name.endswith(RENAME_SUFFIX))
        linked = (inner for inner, _ in (*self.links, *self.backward_links))
        return frozenset((self.timestep, *renamed, *linked))

    @property
    def overlapping(self) -> frozenset[str]:
        """Blobs of the step net that are views of rows which another of its blobs is a view of too."""
        args = self.op.args
        offsets, windows = args.integers("link_offset", ()), args.integers("link_window", ())
        links = [
            Link(*pair, offset, window)
            for pair, offset, window in zip(self.links, offsets, windows or (1,) * len(self.links), strict=False)
        ]
        return frozenset(
            link.internal
            for link in links
            for other in links
            if link.internal != other.internal and _overlap(link, other)
        )

    def _assign(self, argument: str, names: Iterable[str]) -> None:
        values = [name.encode() for name in names]
        for arg in self.op.proto.arg:
            if arg.name == argument and list(arg.strings) != values:
                arg.strings[:] = values


def _overlap(link: Link, other: Link) -> bool:
    return (
        link.external == other.external
        and link.offset < other.offset + other.window
        and other.offset < link.offset + link.window
    )


def workspaces_name(operands: Sequence[str], created: Sequence[str]) -> str:
    """Return the name of the step workspaces, the last operand; the formats without them get one from the first state.

    ``created`` are the states, and what else the forward operator creates but the step workspaces.
    """
    last = operands[-1] if operands else ""
    return f"{created[0]}/step_workspaces" if last in created else last


class RecurrentNetwork(StepOperator):
    """``RecurrentNetwork(sequence, initial states..., references...) -> all, last of each state..., workspaces``.

    Blobs are found by name; only the sequence is found by position. Of early 2017 (``recurrent_inputs``,
    ``recurrent_sizes``, ``scratch``) the outputs have no blob of workspaces.
    """

    types = ("RecurrentNetwork",)
    roles: ClassVar = {STEP: Role.RUN, BACKWARD_STEP: Role.CARRIED}
    training_arguments = frozenset(_TRAINING)

    @cached_property
    def spec(self) -> RecurrentSpec:
        """States, links and aliases. Raises ArgumentError where lists have different lengths."""
        self.op.args.ignore(*_TRAINING, *SCHEDULING)
        return read_spec(self.op)

    @property
    def initial_ids(self) -> tuple[int, ...]:
        """Indices of the inputs with initial states."""
        return initial_ids(self.op)

    @property
    def outputs_with_gradients(self) -> tuple[int, ...]:
        """Indices of the outputs whose gradients its gradient operator reads; none without a backward step net."""
        args = self.op.args
        return (0,) if is_early(args) else args.integers("outputs_with_grads", ())

    @property
    def parameters(self) -> tuple[int, ...]:
        """Indices of the inputs that are learned."""
        return self.op.args.integers("param", ())

    @property
    def step_net(self) -> NetDef:
        """The net of a step."""
        return self.bodies[STEP].net

    @property
    def fills(self) -> tuple[str, ...]:
        """States and scratches: the operator makes them, and the step net has views of their rows."""
        return tuple(name for name in (*self.states, *self.scratches) if name)

    @property
    def writes(self) -> tuple[str, ...]:
        """States and aliases may be declared as outputs; they are written in any case."""
        return (*self.op.outputs, *self.creates)

    @property
    def objects(self) -> tuple[str, ...]:
        """The step workspaces."""
        return tuple(name for name in self.op.outputs[-1:] if name not in self.creates)

    @property
    def workspaces(self) -> str:
        """The name of the step workspaces, also in the format that does not list them."""
        return workspaces_name(self.op.outputs, self.creates)

    @property
    def may_read(self) -> tuple[str, ...]:
        """Blobs that links and aliases name."""
        return (*(outer for _, outer in self.links), *self.alias_sources)

    @property
    def creates(self) -> tuple[str, ...]:
        """States, scratches and aliases."""
        return (*self.fills, *self.alias_targets)

    def places(self) -> tuple[tuple[Place, ...], tuple[Place, ...]]:
        """Return places: sequence and initial states with the operator, what the step net reads where that wants it."""
        own = {0, *self.initial_ids}
        inputs = tuple(Place.OPERATOR if i in own else Place.ANYWHERE for i in range(len(self.op.inputs)))
        outputs = tuple(Place.ANYWHERE if name in self.objects else Place.OPERATOR for name in self.op.outputs)
        return inputs, outputs

    def rename_arguments(self, found: Callable[[str], str], left: Callable[[str], str]) -> None:
        """Give states and aliases the name of what is left; the gradient maker expects gradients named after both."""
        own = set(self.fills)

        def outer(name: str) -> str:
            return left(name) if name in own else found(name)

        for argument, names in (
            (STATES, map(left, self.states)),
            (SCRATCHES, map(left, self.scratches)),
            (ALIAS_TARGET, map(left, self.alias_targets)),
            (ALIAS_SOURCE, map(outer, self.alias_sources)),
            ("link_external", [outer(name) for _, name in self.links]),
            (OLD_INITIAL_BLOBS, map(found, self.op.args.texts(OLD_INITIAL_BLOBS, ()))),
        ):
            self._assign(argument, names)
        if OLD_PARAMETER_GRADIENTS in self.op.args:
            self._assign("param", map(found, self.op.args.texts("param")))
        gradients = {f"{name}{GRADIENT_SUFFIX}": f"{outer(name)}{GRADIENT_SUFFIX}" for name in (*own, *self.op.inputs)}
        self._assign(BACKWARD_EXTERNAL, [gradients.get(name, name) for _, name in self.backward_links])


def recurrent_arguments(
    step_net: NetDef,
    timestep: str,
    states: Sequence[State],
    links: Sequence[Link],
    aliases: Sequence[Alias],
    *,
    executor: bool = False,
) -> dict[str, Any]:
    """Return the arguments of a RecurrentNetwork whose links have windows of one row.

    ``executor``: real Caffe2 runs independent operators of neighboring steps at once.
    """
    return {
        ALIAS_SOURCE: [alias.source for alias in aliases],
        ALIAS_TARGET: [alias.blob for alias in aliases],
        ALIAS_OFFSET: [alias.offset for alias in aliases],
        STATES: [state.blob for state in states],
        INITIAL_IDS: [state.initial for state in states],
        **_link_arguments("link", links),
        **({"enable_rnn_executor": 1} if executor else {}),
        STEP: step_net,
        TIMESTEP: timestep,
    }


def backward_arguments(
    step_net: NetDef | None, links: Sequence[Link], param: Sequence[int], **more: Any
) -> dict[str, Any]:
    """Return the arguments of a RecurrentNetwork for its gradient; ``param`` are indices of inputs that are learned."""
    arguments = {"param": list(param), **_link_arguments(BACKWARD_LINK, links), **more}
    return arguments if step_net is None else {**arguments, BACKWARD_STEP: step_net}


def _link_arguments(kind: str, links: Sequence[Link]) -> dict[str, list[Any]]:
    return {
        f"{kind}_internal": [link.internal for link in links],
        f"{kind}_external": [link.external for link in links],
        f"{kind}_offset": [link.offset for link in links],
    }

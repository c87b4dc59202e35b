"""RecurrentNetworkGradient: a backward step net, from the last step to the first, in the workspaces of the steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import ClassVar, Final

from caffe2_bridge.control.backward_spec import (
    BACKWARD_ALIAS,
    BACKWARD_SCRATCHES,
    BACKWARD_STEP,
    GRADIENT_SUFFIX,
    OLD_PARAMETER_GRADIENTS,
    OUTPUTS_WITH_GRADIENTS,
    BackwardSpec,
    read_backward_spec,
)
from caffe2_bridge.control.description import Place, Role
from caffe2_bridge.control.recurrent import BACKWARD_EXTERNAL, RENAME_SUFFIX, SCHEDULING, StepOperator, workspaces_name
from caffe2_bridge.control.recurrent_spec import (
    ALIAS_SOURCE,
    ALIAS_TARGET,
    OLD_INITIAL_BLOBS,
    SCRATCHES,
    STATES,
    STEP,
    initial_ids,
    is_early,
)
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef

_ALIAS_SOURCES: Final = f"{BACKWARD_ALIAS}_src"
_ALIAS_TARGETS: Final = f"{BACKWARD_ALIAS}_dst"


class RecurrentNetworkGradient(StepOperator):
    """``RecurrentNetworkGradient(gradients of outputs..., inputs..., outputs...) -> gradients of inputs``.

    Its operands and arguments are those of the forward operator, copied by the gradient maker. Names of gradients of
    states and of the sequence are derived from their names.
    """

    types = ("RecurrentNetworkGradient",)
    roles: ClassVar = {STEP: Role.PAST, BACKWARD_STEP: Role.RUN}
    is_forward = False

    @cached_property
    def spec(self) -> BackwardSpec:
        """Gradients of states, parameters and the sequence. Raises ArgumentError where arguments are contradictory."""
        self.op.args.ignore(STEP, *SCHEDULING)
        self.op.args.ignore(*(name for name in self.op.args if name.endswith(RENAME_SUFFIX)))
        return read_backward_spec(self.op, self.output_gradients, self.used_name)

    @property
    def initial_ids(self) -> tuple[int, ...]:
        """Indices of the forward operator's inputs with initial states."""
        return initial_ids(self.op, self.output_gradients)

    @property
    def output_gradients(self) -> int:
        """The number of inputs that are gradients of the forward operator's outputs."""
        args = self.op.args
        if OUTPUTS_WITH_GRADIENTS in args:
            return len(args.integers(OUTPUTS_WITH_GRADIENTS))
        # Releases until February 2017 have one; without any, the first operand is the sequence, which is linked.
        sequences = {outer for _, outer in self.links}
        return int(is_early(args) or sequences.isdisjoint(self.op.inputs[:1]))

    @property
    def workspaces(self) -> str:
        """The name of the step workspaces, also in the format that does not list them."""
        return workspaces_name(self.op.inputs, self._created)

    @property
    def forward_operator(self) -> OperatorDef:
        """The operator whose gradient it is, from the copies of its operands and arguments."""
        names, created = self.op.inputs[self.output_gradients :], self._created
        end = len(names) - (self.workspaces == names[-1])
        while end and names[end - 1] in created:
            end -= 1
        return OperatorDef(
            type="RecurrentNetwork", name=self.op.name, input=names[:end], output=names[end:],
            arg=[arg for arg in self.op.proto.arg if not arg.name.endswith(RENAME_SUFFIX)],
            device_option=self.op.proto.device_option if self.op.proto.HasField("device_option") else None,
        )  # fmt: skip

    @property
    def _created(self) -> tuple[str, ...]:
        """What the forward operator creates, besides its step workspaces."""
        return (*self.states, *self.scratches, *self.alias_targets)

    @property
    def derived_from(self) -> tuple[str, ...]:
        """Blobs from whose names those of gradients are derived: the states and the input sequence."""
        sequence = self.output_gradients
        return (*self.states, *self.op.inputs[sequence : sequence + 1])

    def used_name(self, name: str) -> str:
        """Return the name that the operator really uses for a blob (its ``<blob>.rename`` arguments)."""
        return self.op.args.text(name + RENAME_SUFFIX, name)

    @property
    def body_links(self) -> tuple[tuple[str, str], ...]:
        """The links of both step nets: the backward step net sees rows of forward blobs, too."""
        links = (*self.links, *self.backward_links)
        return tuple((self.used_name(inner), self.used_name(outer)) for inner, outer in links)

    @property
    def writes(self) -> tuple[str, ...]:
        """The outputs, and the gradients of states and sequences that it names itself."""
        args = self.op.args
        gradients = [self.used_name(name + GRADIENT_SUFFIX) for name in self.derived_from]
        early = (*args.texts(BACKWARD_SCRATCHES, ()), *args.texts(_ALIAS_TARGETS, ()))
        return (*self.op.outputs, *(name for name in (*gradients, *early) if name not in self.op.inputs))

    @property
    def updates(self) -> tuple[str, ...]:
        """Blobs that neither operator creates, and of which the backward step net writes rows."""
        created = {*self.writes, *self.states, *self.scratches, *self.alias_targets}
        return tuple(name for name in self.linked_to(BACKWARD_STEP) if name not in created)

    @property
    def may_read(self) -> tuple[str, ...]:
        """What the forward operator has left; gradients that the operator creates are not read before."""
        own = {self.used_name(name + GRADIENT_SUFFIX) for name in self.derived_from}
        linked = [name for name in (self.used_name(name) for _, name in self.backward_links) if name not in own]
        return (*self.states, *linked, *(outer for _, outer in self.links), *self.alias_targets)

    def places(self) -> tuple[tuple[Place, ...], tuple[Place, ...]]:
        """Return the places of operands: the gradients of outputs and the sequence are with the operator."""
        own = range(self.output_gradients + 1)
        inputs = tuple(Place.OPERATOR if i in own else Place.ANYWHERE for i in range(len(self.op.inputs)))
        return inputs, (Place.OPERATOR,) * len(self.op.outputs)

    def why_fixed(self, name: str) -> str | None:
        """Return why a blob must keep its name: gradients are found by derived names."""
        if name in self.derived_from or name.endswith(GRADIENT_SUFFIX):
            return f"this operator derives names of gradients from {name!r}"
        return None

    def rename_arguments(self, found: Callable[[str], str], left: Callable[[str], str]) -> None:
        """Give every blob that is written the name of what is left; keep derived names by ``.rename`` arguments."""
        written = {*self.writes, *self.updates}

        def outer(name: str) -> str:
            return left(name) if name in written else found(name)

        args = self.op.args
        derived = {name: outer(name) for name in self.derived_from}
        named = OLD_PARAMETER_GRADIENTS in args
        made = () if named else self.op.outputs[1 : 1 + len(args.integers("param", ()))]
        real = {name: self.used_name(name) for _, name in self.backward_links}
        for argument, names in (
            (STATES, self.states),
            (SCRATCHES, self.scratches),
            (ALIAS_TARGET, self.alias_targets),
            (ALIAS_SOURCE, self.alias_sources),
            ("link_external", [name for _, name in self.links]),
            (OLD_INITIAL_BLOBS, args.texts(OLD_INITIAL_BLOBS, ())),
            (BACKWARD_SCRATCHES, args.texts(BACKWARD_SCRATCHES, ())),
            (_ALIAS_SOURCES, args.texts(_ALIAS_SOURCES, ())),
            (_ALIAS_TARGETS, args.texts(_ALIAS_TARGETS, ())),
            ("param", args.texts("param") if named else ()),
            (OLD_PARAMETER_GRADIENTS, args.texts(OLD_PARAMETER_GRADIENTS, ())),
        ):
            self._assign(argument, map(outer, names))
        links = [name if outer(real[name]) == real[name] else outer(real[name]) for _, name in self.backward_links]
        self._assign(BACKWARD_EXTERNAL, links)
        for argument, wanted in self._renames(derived, outer):
            for arg in [arg for arg in self.op.proto.arg if arg.name == argument]:
                self.op.proto.arg.remove(arg)
            self.op.proto.arg.add(name=argument, s=wanted.encode())
        if made and not args.texts("param_grads", ()) and any(outer(name) != name for name in made):
            self.op.proto.arg.add(name="param_grads", strings=[name.encode() for name in made])

    def _renames(self, derived: dict[str, str], outer: Callable[[str], str]) -> Iterator[tuple[str, str]]:
        """Yield ``.rename`` arguments that keep the names of gradients of blobs that have new names."""
        for old, new in derived.items():
            real = self.used_name(old + GRADIENT_SUFFIX)
            wanted = outer(real) if real in self.writes else real
            if wanted != self.used_name(new + GRADIENT_SUFFIX):
                yield new + GRADIENT_SUFFIX + RENAME_SUFFIX, wanted

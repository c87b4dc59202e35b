"""What a RecurrentNetworkGradient computes: gradients of states, parameters and the sequence, read from its arguments.

The operands are ``gradients of outputs..., inputs of the forward operator..., outputs of it...``, the results
``gradient of the sequence, gradients of parameters..., gradients of initial states...``.

Releases until February 2017 write them in other ways. There is one gradient of an output, that of the rows of the first
state. Until January 2017 there are no step workspaces: blobs of the steps, forward and backward, are rows of outer
blobs, the *scratches*, and the gradient of the sequence may be an alias of one. The first of them name parameters
instead of giving their indices, and have results for all inputs of the forward operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from caffe2_bridge.control.recurrent_spec import (
    TIMESTEP,
    Alias,
    Link,
    RecurrentSpec,
    Scratch,
    read_aliases,
    read_links,
    read_scratches,
    read_spec,
    require_operands,
)
from caffe2_bridge.netdef.views import ArgumentError, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef

BACKWARD_STEP: Final = "backward_step_net"
BACKWARD_LINK: Final = "backward_link"
GRADIENT_SUFFIX: Final = "_grad"
OUTPUTS_WITH_GRADIENTS: Final = "outputs_with_grads"
RECOMPUTED: Final = "recompute_blobs_on_backward"
BACKWARD_SCRATCHES: Final = "backward_scratch"
BACKWARD_ALIAS: Final = "backward_alias"
# The arguments of the first releases that name gradients of parameters.
OLD_PARAMETER_GRADIENTS: Final = "param_gradient"


@dataclass(frozen=True, slots=True)
class StateGradient:
    """The gradient of a state: an outer blob ``gradient`` of T + 1 rows, of which the last starts at zero.

    Attributes:
        state: the outer blob of the state.
        gradient: the outer blob of its gradient.
        initial: the index of the operand that is the initial state.
        output: the index of the result that is the gradient of the initial state.
        steps: the index of the operand that is the gradient of the rows of all steps; None if it has no such gradient.
        last: the same of the last row.
    """

    state: str
    gradient: str
    initial: int
    output: int
    steps: int | None
    last: int | None


@dataclass(frozen=True, slots=True)
class ParameterGradient:
    """The gradient of a parameter, the sum over the steps of the blob ``internal`` of the backward step net.

    ``parameter`` is the index of the operand, ``output`` that of the result.
    """

    parameter: int
    output: int
    internal: str


@dataclass(frozen=True, slots=True)
class BackwardSpec:
    """One RecurrentNetworkGradient.

    Attributes:
        step_net: the net of a backward step.
        timestep: the name that it has for the index of the step, int32 [1].
        sequence: the index of the operand that is the input sequence; its gradient is result 0.
        sequence_gradient: the outer blob of its gradient.
        states: the gradients of states.
        parameters: the gradients of parameters.
        links: rows that the backward step net sees, those of the forward step net first; of links with the same
            internal blob the last holds. Rows of scratches of the forward operator are blobs of its steps.
        workspaces: the index of the operand that is the step workspaces.
        forward: the operator whose gradient it is.
        scratches: outer blobs that the operator creates, with rows that the steps write.
        aliases: outer blobs that are rows of these after the loop.
        recomputed: blobs of the forward steps that the backward step net computes again, to save their memory.
    """

    argument: ClassVar[str] = BACKWARD_STEP
    step_net: NetDef
    timestep: str
    sequence: int
    sequence_gradient: str
    states: tuple[StateGradient, ...]
    parameters: tuple[ParameterGradient, ...]
    links: tuple[Link, ...]
    workspaces: int
    forward: RecurrentSpec
    scratches: tuple[Scratch, ...] = ()
    aliases: tuple[Alias, ...] = ()
    recomputed: tuple[str, ...] = ()

    def without_scratches(self) -> BackwardSpec:
        """Return the same without scratches: what is linked to them is a blob of the step nets alone.

        A blob whose rows are the gradient of the sequence is linked to that.
        """
        names = {scratch.blob for scratch in self.scratches}
        sequences = {alias.source: alias.blob for alias in self.aliases if alias.blob == self.sequence_gradient}
        kept = tuple(
            replace(link, external=sequences.get(link.external, link.external))
            for link in self.links
            if link.external not in names or link.external in sequences
        )
        return replace(self, links=kept, scratches=(), aliases=())


def read_backward_spec(op: OpView, gradients: int, used_name: Callable[[str], str]) -> BackwardSpec:
    """Read the arguments of a RecurrentNetworkGradient. Raises ArgumentError where they contradict one another.

    ``gradients`` is the number of operands that are gradients of outputs. ``used_name`` gives the name that the
    operator really uses for a blob.
    """
    args = op.args
    step_net = args.net(BACKWARD_STEP)
    if step_net is None or not step_net.op:
        raise ArgumentError("the backward step net is empty")
    forward = read_spec(op, gradients)
    links = (*forward.without_scratches().links, *read_links(args, BACKWARD_LINK))
    args.ignore("input_gradient_ids")
    parameters = _parameters(op, gradients, used_name)
    return BackwardSpec(
        step_net,
        args.text(TIMESTEP, TIMESTEP),
        gradients,
        used_name(op.inputs[gradients] + GRADIENT_SUFFIX),
        _states(op, forward, gradients, parameters, used_name),
        parameters,
        tuple(Link(used_name(e.internal), used_name(e.external), e.offset, e.window) for e in links),
        len(op.inputs) - 1,
        forward,
        read_scratches(args, BACKWARD_SCRATCHES),
        read_aliases(args, BACKWARD_ALIAS),
        args.texts(RECOMPUTED, ()),
    )


def _parameters(op: OpView, gradients: int, used_name: Callable[[str], str]) -> tuple[ParameterGradient, ...]:
    """Return the parameters; the blob of a step is that of ``param_grads``, without it named like the result."""
    if OLD_PARAMETER_GRADIENTS in op.args:
        return _named_parameters(op)
    indices, names = op.args.integers("param", ()), op.args.texts("param_grads", ())
    if names and len(names) != len(indices):
        raise ArgumentError(f"arguments of unequal length: param ({len(indices)}), param_grads ({len(names)})")
    if len(op.outputs) < 1 + len(indices):
        raise ArgumentError(f"the operator lists {len(op.outputs)} outputs, but has {len(indices)} parameters")
    require_operands(op, "param", indices, gradients)
    internals = [used_name(name) for name in names] or list(op.outputs[1 : 1 + len(indices)])
    return tuple(
        ParameterGradient(index + gradients, 1 + i, internal)
        for i, (index, internal) in enumerate(zip(indices, internals, strict=True))
    )


def _named_parameters(op: OpView) -> tuple[ParameterGradient, ...]:
    """Return parameters of the first releases. Raises ArgumentError if one is no input, or its gradient no output."""
    names, gradients = op.args.texts("param", ()), op.args.texts(OLD_PARAMETER_GRADIENTS, ())
    if len(names) != len(gradients):
        raise ArgumentError(f"arguments of unequal length: param ({len(names)}), param_gradient ({len(gradients)})")
    for name, gradient in zip(names, gradients, strict=True):
        if name not in op.inputs or gradient not in op.outputs:
            raise ArgumentError(f"parameter {name!r} must be among the inputs, and its gradient among the outputs")
    return tuple(
        ParameterGradient(op.inputs.index(name), op.outputs.index(gradient), gradient)
        for name, gradient in zip(names, gradients, strict=True)
    )


def _states(
    op: OpView,
    forward: RecurrentSpec,
    gradients: int,
    parameters: tuple[ParameterGradient, ...],
    used_name: Callable[[str], str],
) -> tuple[StateGradient, ...]:
    given: dict[tuple[str, int], int] = {}
    if OUTPUTS_WITH_GRADIENTS in op.args:
        outputs = {index: i for i, index in enumerate(op.args.integers(OUTPUTS_WITH_GRADIENTS, ()))}
        for i, alias in enumerate(forward.aliases):
            if i in outputs:
                _check_offset(alias)
                given[alias.source, alias.offset] = outputs[i]
    elif gradients and forward.states:
        given[forward.states[0].blob, 1] = 0
    named = OLD_PARAMETER_GRADIENTS in op.args
    return tuple(
        _state(
            given,
            state.blob,
            state.initial + gradients,
            state.initial if named else 1 + len(parameters) + i,
            used_name,
        )
        for i, state in enumerate(forward.states)
    )


def _state(
    given: Mapping[tuple[str, int], int], blob: str, initial: int, output: int, used_name: Callable[[str], str]
) -> StateGradient:
    gradient = used_name(blob + GRADIENT_SUFFIX)
    return StateGradient(blob, gradient, initial, output, given.get((blob, 1)), given.get((blob, -1)))


def _check_offset(alias: Alias) -> None:
    if alias.offset not in (1, -1):
        raise ArgumentError(
            f"the output {alias.blob!r} has a gradient, so that its offset must be 1 or -1, not {alias.offset}"
        )

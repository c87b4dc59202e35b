"""The gradient of Do: a Do that runs the backward pass of the body in the workspace that the forward Do has left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from caffe2_bridge.control import BodyScope, Do, control_of, do_arguments, edit_bodies, is_control, rename_control
from caffe2_bridge.gradients.backward import backward_pass
from caffe2_bridge.gradients.control.bindings import (
    INNER_COPY,
    INNER_GRAD,
    INNER_OUTER,
    DoBinding,
    dedupe_g_output,
    dense_gradients,
    gradient_net,
    gradient_op,
)
from caffe2_bridge.gradients.forward import Differentiate, Forward, SparseGradient
from caffe2_bridge.gradients.operator_maker import add_arguments, copy_operator
from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.ssa.effects import effects_of


class DoGradient(NamedTuple):
    """A gradient Do, and the gradient of each outer input that has one."""

    op: OperatorDef
    g_input: dict[str, str]


def do_gradient(op: Forward) -> None:
    """Make the gradient of a Do."""
    binding = DoBinding.of(op.proto)
    copies, given = dedupe_g_output(op.proto, dense_gradients(op.proto, op.g_output))
    seeds = {name: gradient for name, gradient in zip(binding.outputs, given, strict=False) if gradient}

    def name_for(blob: str) -> str:
        """Return a name that no incoming gradient has: an outer blob is bound once only."""
        name = f"{blob}_grad"
        return f"{blob}_input_grad" if name in seeds.values() else name

    made = differentiate_do(binding, seeds, op.differentiate, name_for)
    if made.g_input:
        op.operators += [*copies, made.op]
        for index, name in enumerate(binding.inputs):
            if name in made.g_input:
                op.set_dense(index, made.g_input[name])


def differentiate_do(
    binding: DoBinding,
    seeds: Mapping[str, str],
    differentiate: Differentiate,
    name_for: Callable[[str], str],
    *,
    saves_external_blobs: bool = False,
) -> DoGradient:
    """Return the gradient of a Do.

    Args:
        binding: the forward Do.
        seeds: for outer outputs the outer name of the gradient.
        differentiate: makes gradients of operators.
        name_for: the outer name for the gradient of an outer input.
        saves_external_blobs: the forward Do has left copies of outer blobs in its workspace; those of the blobs that
            it writes are read instead.
    """
    inner_seeds = {binding.inner[name]: binding.inner[name] + INNER_GRAD for name in seeds}
    found = backward_pass(binding.net.op, inner_seeds, differentiate, net=binding.net.name or "net")
    results: dict[str, str] = {}
    bound: dict[str, str] = {}
    exports = []
    for outer in binding.inputs:
        inner = binding.inner[outer]
        gradient = found.entry.get(inner)
        if gradient is not None:
            # The gradient may be one that comes in, or that of two inputs: a copy has a binding of its own.
            results[outer] = name_for(outer)
            bound[inner + INNER_COPY] = results[outer]
            exports.append(_export(gradient, inner))

    outer_of = {inner_seeds[binding.inner[name]]: gradient for name, gradient in seeds.items()}
    operators = [*found.operators, *exports]
    if saves_external_blobs:
        outer_of |= _read_outside_what_stays(binding, operators)
    else:
        outer_of |= {inner: outer for outer, inner in binding.inner.items()}
    inputs: dict[str, None] = {}
    saved: dict[str, None] = {}
    for name in read_from_outside(operators):
        if name in outer_of:
            inputs[outer_of[name]] = None
            bound[name] = outer_of[name]
        else:
            saved[name] = None

    outputs = list(results.values())
    op = gradient_op(binding.op, [*inputs, binding.workspace], [*outputs, binding.workspace])
    net = gradient_net(binding.net, operators)
    add_arguments(op, do_arguments(net, bound, list(inputs), outputs, saved_fwd_blobs=list(saved)))
    return DoGradient(op, results)


def _read_outside_what_stays(binding: DoBinding, operators: Iterable[OperatorDef]) -> dict[str, str]:
    """Make operators read outer blobs that the body never writes instead of their copies, under new names.

    When a net runs again, real Caffe2 removes the copies, and what read them reads freed memory. Of the blobs that the
    body writes, the copies alone hold what is needed, but for operands of which the device only matters.

    Returns:
        The new names, each with the outer blob.
    """
    written = {name for op in binding.net.op for name in op.output}
    stays = {inner: outer for outer, inner in binding.inner.items() if inner not in written}
    result: dict[str, str] = {}
    for op in operators:
        if op.type == "CopyOnDeviceLike":
            op.input[1] = op.input[0]
        read = {*op.input, *effects_of(NetDef(op=[op]), op.type).found} if is_control(op) else op.input
        names = {name: name + INNER_OUTER for name in stays if name in read}
        op.input.extend(name for name in names if name not in op.input)  # branches read what the If does not list
        _rename_reads(op, names)
        result |= {new: stays[name] for name, new in names.items()}
    return result


def _rename_reads(op: OperatorDef, names: Mapping[str, str]) -> None:
    """Rename blobs that an operator and its bodies read.

    A Do within runs in a workspace of the forward pass, where the names that it binds stand for what they did then: it
    binds new ones.
    """
    control = control_of(OpView(op, 0))
    if isinstance(control, Do):
        inner = {name: name + INNER_OUTER for name, outer in control.bindings.items() if outer in names}
        net = control.net
        op.input[:] = [names.get(name, name) for name in op.input]
        control.rename_inner(inner)
        for each in net.op:
            _rename_reads(each, inner)
        control.store("net")
    elif control is not None and control.scope is BodyScope.SHARED:
        op.input[:] = [names.get(name, name) for name in op.input]

        def edit(net: NetDef) -> None:
            for each in net.op:
                _rename_reads(each, names)

        edit_bodies(op, edit)
    else:
        rename_control(op, names, names)


def read_from_outside(operators: Iterable[OperatorDef]) -> dict[str, None]:
    """Return the blobs that operators read before one of them writes them."""
    written: set[str] = set()
    result: dict[str, None] = {}
    for op in operators:
        result |= dict.fromkeys(name for name in op.input if name not in written)
        written.update(op.output)
    return result


def _export(gradient: str | SparseGradient, inner: str) -> OperatorDef:
    """Return the operator that writes the gradient of an inner blob to the name that is bound to an outer one."""
    if isinstance(gradient, str):
        return copy_operator(gradient, inner + INNER_COPY)
    return OperatorDef(type="SparseToDense", input=[*gradient, inner], output=[inner + INNER_COPY])

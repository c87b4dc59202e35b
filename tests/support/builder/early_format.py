"""Recurrent nets as releases until February 2017 write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from support.builder.random_cells import RandomCell

from caffe2_bridge.control import RecurrentNetwork, RecurrentNetworkGradient
from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.proto.caffe2_pb2 import Argument, NetDef, OperatorDef
from caffe2_bridge.ssa.effects import effects_of

# named: parameters by name, results for all inputs; kept: blobs of the steps are rows of outer blobs; by_name and
# one_gradient: step workspaces, initial states by name or by index, and the gradient of the first output alone.
Format = Literal["named", "kept", "by_name", "one_gradient"]
FORMATS = get_args(Format)


def has_one_gradient(drawn: RandomCell) -> bool:
    """Whether the first output is the only one that has a gradient, as in these formats."""
    (op,) = (op for op in drawn.net.proto.op if op.type == "RecurrentNetwork")
    return RecurrentNetwork(OpView(op, 0)).outputs_with_gradients == (0,)


def early_net(net: NetDef, form: Format, width: int) -> NetDef:
    """Return the net in an old format; all blobs of the steps have ``width`` features."""
    result = NetDef()
    result.CopyFrom(net)
    forward, gradient = (op for op in result.op if op.type.startswith("RecurrentNetwork"))
    scratches = _saved(gradient) if form in ("named", "kept") else []
    parameters = _parameters(gradient)
    for op in (forward, gradient):
        _drop(op, "outputs_with_grads", "param_grads", "enable_rnn_executor")
        if form == "one_gradient":
            continue
        ids = list(_argument(op, "initial_recurrent_state_ids").ints)
        _drop(op, "initial_recurrent_state_ids")
        _set(op, "recurrent_inputs", [forward.input[i] for i in ids])
        _set(op, "recurrent_input_ids", ids)
        if form in ("named", "kept"):
            _keep(op, scratches, width)
    if form in ("named", "kept"):
        del forward.output[-1]
        del gradient.input[-1]
    if form == "named":
        _name_parameters(forward, gradient, parameters)
    return result


def _saved(gradient: OperatorDef) -> list[str]:
    """Return the blobs of a step that the backward step net finds."""
    spec = RecurrentNetworkGradient(OpView(gradient, 0)).spec
    linked = {link.internal for link in spec.links}
    found = effects_of(spec.step_net, spec.argument).found
    return [name for name in found if name in spec.forward.written and name not in linked]


def _parameters(gradient: OperatorDef) -> dict[str, str]:
    """Return each parameter's gradient by its name, after the backward step net writes it under the result's name."""
    spec = RecurrentNetworkGradient(OpView(gradient, 0)).spec
    renamed = {each.internal: gradient.output[each.output] for each in spec.parameters}
    for op in _argument(gradient, "backward_step_net").n.op:
        op.input[:] = [renamed.get(name, name) for name in op.input]
        op.output[:] = [renamed.get(name, name) for name in op.output]
    for name, values in (("backward_link_internal", renamed),):
        arg = _argument(gradient, name)
        arg.strings[:] = [values.get(text.decode(), text.decode()).encode() for text in arg.strings]
    return {gradient.input[each.parameter]: gradient.output[each.output] for each in spec.parameters}


def _keep(op: OperatorDef, scratches: Sequence[str], width: int) -> None:
    """Link blobs of the steps to outer blobs, and alias the gradient of the sequence to another one."""
    _set(op, "scratch", [f"{name}_states" for name in scratches])
    for name in scratches:
        _link(op, "link", name, f"{name}_states")
    _set(op, "scratch_sizes", [width] * len(scratches))
    if op.type == "RecurrentNetwork" or not scratches:
        return
    external = _argument(op, "backward_link_external")
    external.strings[:] = [b"x_rows_grad" if text == b"x_grad" else text for text in external.strings]
    more = [f"{name}_states_grad" for name in scratches[1:]]
    _set(op, "backward_scratch", ["x_rows_grad", *more])
    _set(op, "backward_alias_src", ["x_rows_grad"])
    _set(op, "backward_alias_dst", ["x_grad"])
    _set(op, "backward_alias_offset", [0])


def _name_parameters(forward: OperatorDef, gradient: OperatorDef, parameters: Mapping[str, str]) -> None:
    results = {**{name: f"{name}_unused_grad" for name in forward.input}, **parameters}
    results[forward.input[0]] = "x_grad"
    for name in _argument(gradient, "recurrent_inputs").strings:
        initial = list(RecurrentNetwork(OpView(forward, 0)).initial_ids)
        first = 1 + len(parameters)
        results[name.decode()] = gradient.output[first + [forward.input[i] for i in initial].index(name.decode())]
    for op in (forward, gradient):
        _drop(op, "param", "recurrent_input_ids")
        _set(op, "recurrent_sizes", [1] * len(_argument(op, "recurrent_inputs").strings))
        _set(op, "param", list(parameters))
        _set(op, "param_gradient", list(parameters.values()))
    gradient.output[:] = [results[name] for name in forward.input]


def _argument(op: OperatorDef, name: str) -> Argument:
    (found,) = (arg for arg in op.arg if arg.name == name)
    return found


def _drop(op: OperatorDef, *names: str) -> None:
    kept = [arg for arg in op.arg if arg.name not in names]
    del op.arg[:]
    op.arg.extend(kept)


def _set(op: OperatorDef, name: str, values: Sequence[Any]) -> None:
    if values and isinstance(values[0], str):
        op.arg.add(name=name, strings=[value.encode() for value in values])
    else:
        op.arg.add(name=name, ints=values)


def _link(op: OperatorDef, kind: str, internal: str, external: str) -> None:
    _argument(op, f"{kind}_internal").strings.append(internal.encode())
    _argument(op, f"{kind}_external").strings.append(external.encode())
    _argument(op, f"{kind}_offset").ints.append(0)

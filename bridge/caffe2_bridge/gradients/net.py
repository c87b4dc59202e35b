"""Differentiate nets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from google.protobuf.message import Message

from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.gradients.backward import backward_pass
from caffe2_bridge.gradients.control.localize import with_local_bodies
from caffe2_bridge.gradients.forward import BlobGradient, GradientError, SparseGradient
from caffe2_bridge.gradients.registry import get_gradient_for_op
from caffe2_bridge.netdef.names import require_text_in_net
from caffe2_bridge.netdef.views import as_net_def
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

Losses: TypeAlias = Mapping[str, BlobGradient] | Iterable[str]


class GradientNet(NamedTuple):
    """A net with its gradient operators, and the gradient of each blob."""

    net: NetDef
    gradients: dict[str, str | SparseGradient]


class GradientOperators(NamedTuple):
    """The gradient operators of a forward pass, and the gradient of each blob."""

    operators: list[OperatorDef]
    gradients: dict[str, str | SparseGradient]


def add_gradient_operators(net: Message | bytes, losses: Losses, *, skip: int = 0) -> GradientNet:
    """Append the operators to a net that compute the gradients of losses.

    Only operators on which a loss depends are differentiated. The gradients of a blob that several operators read are
    summed: dense ones by Sum, sparse ones by Concat. The names are those of real Caffe2. The operators differ from
    Caffe2's where its gradients would be wrong: a blob that has a given gradient and others, a gradient of several
    operators that is renamed for a sum, and a gradient that two blobs share and one operator overwrites. Loops and
    branches that a loss depends on, and that overwrite what their gradients need, compute on local blobs in the new net
    and copy their results to the blobs that they wrote.

    Args:
        net: the net, which is not changed: a NetDef of this project or of Caffe2, or a serialized one.
        losses: names of blobs, whose gradients are ones; or a mapping from blobs to their gradients: the name of a
            blob, a ``SparseGradient``, or None for ones.
        skip: the number of operators at the start that are not differentiated.

    Returns:
        The new net, and the gradient of each blob on which a loss depends: that of its last value in the net, or, if
        the blob was overwritten after all operators that a loss depends on read it, of the value that they read.

    Raises:
        NetFormatError: ``net`` is not a NetDef.
        GradientError: the net lacks a loss, an operator has no gradient, or its gradient needs a blob that was
            overwritten; the message names the operators.
    """
    source = as_net_def(net)
    require_text_in_net(source)
    if skip < 0:
        raise GradientError(f"skip ({skip}) must not be negative")
    ys = _by_name(losses)
    known = {*source.external_input, *(name for op in source.op for name in (*op.input, *op.output))}
    for name in ys:
        if name not in known:
            raise GradientError(f"{source.name or 'net'}: loss {name!r} is not a blob of the net")
    source = _with_local_bodies(source, ys, skip)
    found = backward_pass(source.op[skip:], ys, get_gradient_for_op, net=source.name or "net")
    result = NetDef()
    result.CopyFrom(source)
    result.op.extend(found.operators)
    return GradientNet(result, found.gradients)


def get_backward_pass(operators: Iterable[OperatorDef], ys: Losses) -> GradientOperators:
    """Return the gradient operators of a list of operators, exactly as real Caffe2's ``GradientRegistry`` does.

    This differs from ``add_gradient_operators`` in one respect: the gradients from the operators that read a blob
    replace a gradient that is given for it. The step nets of recurrent networks rely on this: they add the two
    themselves.

    Raises:
        GradientError: as for ``add_gradient_operators``.
    """
    found = backward_pass(operators, _by_name(ys), get_gradient_for_op, sums_given=False)
    return GradientOperators(found.operators, found.gradients)


def _with_local_bodies(net: NetDef, losses: Iterable[str], skip: int) -> NetDef:
    try:
        return with_local_bodies(net, losses, skip)
    except ConversionError as error:
        raise GradientError(str(error)) from error


def _by_name(losses: Losses) -> dict[str, BlobGradient]:
    if isinstance(losses, str):
        losses = [losses]
    if not isinstance(losses, Mapping):
        losses = dict.fromkeys(losses)
    return {str(name): _as_text(gradient) for name, gradient in losses.items()}


def _as_text(gradient: BlobGradient) -> BlobGradient:
    return gradient if gradient is None or isinstance(gradient, SparseGradient) else str(gradient)

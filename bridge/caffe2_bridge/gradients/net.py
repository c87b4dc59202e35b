"""Gradients of whole nets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from google.protobuf.message import Message

from caffe2_bridge.gradients.backward import backward_pass
from caffe2_bridge.gradients.forward import BlobGradient, GradientError, SparseGradient
from caffe2_bridge.gradients.registry import get_gradient_for_op
from caffe2_bridge.netdef.names import require_text_in_net
from caffe2_bridge.netdef.views import as_net_def
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

Losses: TypeAlias = Mapping[str, BlobGradient] | Iterable[str]


class GradientNet(NamedTuple):
    """A net with its gradient operators, and by blob the name of its gradient."""

    net: NetDef
    gradients: dict[str, str | SparseGradient]


class GradientOperators(NamedTuple):
    """The gradient operators of a forward pass, and by blob the name of its gradient."""

    operators: list[OperatorDef]
    gradients: dict[str, str | SparseGradient]


def add_gradient_operators(net: Message | bytes, losses: Losses, *, skip: int = 0) -> GradientNet:
    """A net with the operators behind it that compute the gradients of losses.

    Operators are added only where a loss depends on them. The gradients of a blob that several operators read are
    summed: dense ones by a Sum, sparse ones by putting them behind one another. The names are those of real Caffe2;
    where its own gradients would be wrong (a blob whose given gradient is not the only one; a gradient in several steps
    that is split for a sum; a gradient that two blobs share and one operator changes) the operators differ from its.

    Args:
        net: the net, which is left as it is: a NetDef of this project or of Caffe2, or a serialized one.
        losses: names of blobs, for gradients of ones, or by name the blob that holds the gradient, a
            ``SparseGradient``, or None for ones.
        skip: so many operators at the start get no gradient.

    Returns:
        The new net, and for each blob that a loss depends on its gradient: that of the blob's value at the end of the
        net, or where the operators that read it came before it was overwritten, of the value that they read.

    Raises GradientError where a loss is no blob of the net, an operator has no gradient, or its gradient needs a blob
    that was overwritten; the text names the operators.
    """
    source = as_net_def(net)
    require_text_in_net(source)
    if skip < 0:
        raise GradientError(f"skip is {skip}, not a number of operators")
    ys = _by_name(losses)
    known = {*source.external_input, *(name for op in source.op for name in (*op.input, *op.output))}
    for name in ys:
        if name not in known:
            raise GradientError(f"{source.name or 'net'}: {name!r}, whose gradient is asked for, is no blob of the net")
    found = backward_pass(source.op[skip:], ys, get_gradient_for_op, net=source.name or "net")
    result = NetDef()
    result.CopyFrom(source)
    result.op.extend(found.operators)
    return GradientNet(result, found.gradients)


def get_backward_pass(operators: Iterable[OperatorDef], ys: Losses) -> GradientOperators:
    """The gradient operators of a list of operators, exactly as real Caffe2's ``GradientRegistry`` chooses them.

    Differs from ``add_gradient_operators`` in one thing: where a blob has a given gradient and operators that read it
    contribute too, theirs takes the place of what is given. The step nets of recurrent networks rely on it: they add
    the two themselves.

    Raises GradientError as ``add_gradient_operators`` does.
    """
    found = backward_pass(operators, _by_name(ys), get_gradient_for_op, sums_given=False)
    return GradientOperators(found.operators, found.gradients)


def _by_name(losses: Losses) -> dict[str, BlobGradient]:
    if isinstance(losses, str):
        losses = [losses]
    if not isinstance(losses, Mapping):
        losses = dict.fromkeys(losses)
    return {str(name): _plain(gradient) for name, gradient in losses.items()}


def _plain(gradient: BlobGradient) -> BlobGradient:
    return gradient if gradient is None or isinstance(gradient, SparseGradient) else str(gradient)

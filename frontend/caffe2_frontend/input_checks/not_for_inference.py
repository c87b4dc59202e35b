"""Warn of nets that compute something else than a trained model does: random weights, operators in training mode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from caffe2_bridge.control import all_operators
from caffe2_bridge.diagnostics import Diagnostic, Location, Severity
from caffe2_bridge.diagnostics.listing import listed
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.init.parameter_blobs import parameter_blobs
from caffe2_bridge.netdef.views import ArgumentError, NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.training import computes_gradients

_NAMED: Final = 3
_IN_TRAINING: Final[Mapping[str, str]] = {
    "Dropout": "random elements are set to zero",
    "SpatialBN": "the mean and the variance are those of each batch, not the statistics of the net",
}


def not_for_inference(net: NetDef, init: InitNet) -> Iterator[Diagnostic]:
    """Yield a warning for random parameters, and one for each operator type in training mode, unless the net trains."""
    if computes_gradients(net):
        return
    view = NetView(net)
    random = parameter_blobs(view, init.random)
    if random:
        yield _random(view, init, random)
    training: dict[str, list[OpView]] = {}
    for op in all_operators(view):
        if op.type in _IN_TRAINING and _trains(op):
            training.setdefault(op.type, []).append(op)
    for op_type, ops in training.items():
        yield _training_mode(view, op_type, ops)


def _trains(op: OpView) -> bool:
    try:
        return not op.args.flag("is_test", default=False)
    except ArgumentError:  # reported when the operator is converted
        return False


def _random(net: NetView, init: InitNet, names: list[str]) -> Diagnostic:
    shown = listed(names, _NAMED, lambda name: f"{name!r} by {init.random[name]}")
    count = f"{len(names)} parameter{'s' * (len(names) > 1)}"
    reason = f"the init net draws {count} at random ({shown}): the net was never trained"
    hint = "give the init net of the trained model: --init FILE, or init_net=..."
    return Diagnostic("random-parameters", reason, Location(net.name), Severity.WARNING, hint)


def _training_mode(net: NetView, op_type: str, ops: list[OpView]) -> Diagnostic:
    many = f"{len(ops)} {op_type} operators are" if len(ops) > 1 else f"the {op_type} operator is"
    reason = f"{many} in training mode, and the net does not train: {_IN_TRAINING[op_type]}"
    hint = f"set is_test=1, as for {', '.join(repr(op.outputs[0]) for op in ops[:_NAMED] if op.outputs)}"
    return Diagnostic("training-mode", reason, Location(net.name), Severity.WARNING, hint)

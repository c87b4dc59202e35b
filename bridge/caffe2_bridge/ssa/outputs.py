"""The outputs of a net: those that are asked for, those that it declares, or those that nothing in it reads."""

from __future__ import annotations

from collections.abc import Iterable

from caffe2_bridge.diagnostics import Location
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.ssa.effects import NetEffects, analyse
from caffe2_bridge.ssa.objects import object_outputs


def net_outputs(net: NetDef, asked: Iterable[str] | None = None) -> tuple[str, ...]:
    """The outputs of a net, without duplicates.

    Those that are asked for; without a request those that the net declares; without a declaration the blobs that
    operators list as outputs and whose last value no operator, and no body, reads. Objects are not among the latter.
    """
    if asked is not None:
        return tuple(dict.fromkeys(asked))
    declared = tuple(dict.fromkeys(net.external_output))
    return declared or unread_outputs(analyse(net, Location(net.name or "net"), []))


def unread_outputs(effects: NetEffects) -> tuple[str, ...]:
    """The blobs that operators list as outputs and whose last value is a tensor that no operator or body reads."""
    is_output: dict[str, bool] = {}
    read: set[str] = set()
    for proto, op in zip(reversed(effects.net.op), reversed(effects.ops), strict=True):
        objects = object_outputs(proto)
        for name in proto.output:
            is_output.setdefault(name, name not in read and name not in objects)
        read.update((*op.reads, *op.soft))
    listed = dict.fromkeys(name for op in effects.net.op for name in op.output if name)
    return tuple(name for name in listed if is_output[name])

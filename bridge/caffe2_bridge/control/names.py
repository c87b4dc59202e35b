"""Names in nets and their bodies."""

from __future__ import annotations

from collections.abc import Iterator

from caffe2_bridge.control.recurrent import RENAME_SUFFIX
from caffe2_bridge.control.table import body_arguments
from caffe2_bridge.netdef.views import ArgumentError, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef


def all_names(net: NetDef) -> Iterator[str]:
    """Yield every text in a net that could be a blob name: operands, external blobs, string arguments, all bodies."""
    yield from net.external_input
    yield from net.external_output
    for op in net.op:
        yield from op.input[:]
        yield from op.output[:]
        if op.arg:
            yield from names_in_arguments(op)


def names_in_arguments(op: OperatorDef) -> Iterator[str]:
    """Yield every text in the arguments of an operator that could be a blob name, those in its bodies too."""
    for arg in op.arg:
        if arg.HasField("s"):
            yield arg.s.decode(errors="replace")
        for value in arg.strings:
            yield value.decode(errors="replace")
        if arg.HasField("n"):
            yield from all_names(arg.n)
        for sub_net in arg.nets:
            yield from all_names(sub_net)
        if arg.name.endswith(RENAME_SUFFIX):
            yield arg.name.removesuffix(RENAME_SUFFIX)
    yield from _names_in_text(op)


def _names_in_text(op: OperatorDef) -> Iterator[str]:
    """Yield names in bodies written as text; none where a text cannot be parsed, which the analysis reports."""
    for arg in body_arguments(op):
        if arg.HasField("s"):
            try:
                net = OpView(op, 0).args.net(arg.name)
            except ArgumentError:
                continue
            if net is not None:
                yield from all_names(net)

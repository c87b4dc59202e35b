"""Links to windows of rows, added to recurrent nets that have none."""

from __future__ import annotations

from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef


def with_window(net: NetDef, sequence: str = "x") -> NetDef:
    """Return the net with a window of two rows that no operator reads, which makes its operators carry whole blobs."""
    changed = NetDef()
    changed.CopyFrom(net)
    for op in changed.op:
        if op.type.startswith("RecurrentNetwork"):
            add_link(op, "unread", sequence, window=2)
    return changed


def add_link(op: OperatorDef, internal: str, external: str, *, window: int) -> None:
    """Link a blob of the steps to rows of an outer blob, from the row of the step on."""
    args = {arg.name: arg for arg in op.arg}
    args["link_internal"].strings.append(internal.encode())
    args["link_external"].strings.append(external.encode())
    args["link_offset"].ints.append(0)
    op.arg.add(name="link_window", ints=[*[1] * (len(args["link_offset"].ints) - 1), window])

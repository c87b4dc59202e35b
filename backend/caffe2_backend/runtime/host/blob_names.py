"""Operators on blobs as such: GetAllBlobNames, FeedBlob and Free."""

from __future__ import annotations

import numpy as np

from caffe2_backend.runtime.host.family import HostFamily, HostOp

family = HostFamily("blobs")


@family.runs("GetAllBlobNames")
def get_all_blob_names(op: HostOp) -> None:
    """GetAllBlobNames(; include_shared=1) -> the names of all blobs of the workspace, its output among them.

    ``include_shared`` adds those of the workspaces around it. The names are sorted; Caffe2's have no order.
    """
    shared = op.args.flag("include_shared", default=True)
    names = op.frame.names() if shared else op.frame.own_names()
    op.set(0, np.array(sorted(names | set(op.outputs)), object))


@family.runs("FeedBlob")
def feed_blob(op: HostOp) -> None:
    """FeedBlob(; value) -> the text ``value``."""
    value = op.args.raw("value")
    if value is None:
        raise op.error("the argument value is missing")
    op.set(0, value.s)


@family.runs("Free")
def free(op: HostOp) -> None:
    """Free(blob...) -> blob..., which have no value afterwards."""
    if op.inputs != op.outputs:
        raise op.error("the outputs must be the inputs")
    for name in op.outputs:
        op.frame.clear(name)

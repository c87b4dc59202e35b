"""Maps of classes to probabilities, which Caffe2 does not have."""

from __future__ import annotations

from typing import Final

from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.value import Value
from caffe2_bridge.diagnostics.listing import listed

family = Family("class_maps")

_LISTED: Final = 10


@family.converts("ai.onnx.ml::ZipMap")
def zip_map(op: Op) -> Value:
    """``ZipMap(X; classlabels_int64s | classlabels_strings) -> Z``: the probabilities X [N, C], instead of N maps."""
    if op.lowering.carries_nodes:
        op.unsupported("maps are carried")
    labels = [*op.args.integers("classlabels_int64s", default=()), *op.args.texts("classlabels_strings", default=())]
    op.note(
        f"{op.node.outputs[0].name!r} is a tensor [N, {len(labels)}] instead of a sequence of maps; its columns are "
        f"the classes {listed(list(map(str, labels)), _LISTED, str)}"
    )
    return op.input(0)

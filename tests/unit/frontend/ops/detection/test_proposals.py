"""Proposals and regions: the ranks of operands, and numbers of levels."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator
from support.exports import Specs, export

from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.graph_edit import construct_init_net_from_params
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import to_onnx

RANKS = {"scores": 4, "bbox_deltas": 4, "im_info": 2, "anchors": 2}


@pytest.mark.parametrize("name", RANKS)
def test_operands_of_other_ranks_are_refused(name: str) -> None:
    ranks = RANKS | {name: RANKS[name] - 1}
    with pytest.raises(ConversionError, match=f"{name} must have rank"):
        export(
            operator("GenerateProposals", list(RANKS), ["rois", "probs"]),
            {each: ("float32", (None,) * rank) for each, rank in ranks.items()},
        )


def test_the_columns_of_anchors_decide_whether_boxes_are_rotated() -> None:
    inputs: Specs = {name: ("float32", (None,) * rank) for name, rank in RANKS.items()}
    with pytest.raises(ConversionError, match="the number of columns of the anchors"):
        export(operator("GenerateProposals", list(RANKS), ["rois", "probs"]), inputs)


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (
            operator("DistributeFpnProposals", ["X"], ["a", "b", "order"], roi_max_level=2**31 - 1),
            "levels 2 to 2147483647 require 2147483647 outputs, not 3",
        ),
        (operator("RMACRegions", ["I"], ["rois"], scales=2**31 - 1), "scales must be at most 1000"),
    ],
)
def test_levels_that_no_net_has_are_refused_at_once(op: OperatorDef, message: str) -> None:
    inputs: Specs = {"X": ("float32", (None, 5)), "I": ("float32", (None,) * 4)}
    with pytest.raises(ConversionError, match=message):
        export(op, {op.input[0]: inputs[op.input[0]]})


def test_the_columns_of_im_info_are_known_and_its_rows_are_images() -> None:
    """Real Caffe2 requires [images, 3]."""
    ops = [
        operator("GenerateProposals", list(RANKS), ["rois", "probs"]),
        operator("BBoxTransform", ["rois", "deltas", "im_info"], ["boxes"]),
    ]
    init = construct_init_net_from_params({"anchors": np.zeros((3, 4), np.float32)})
    model = to_onnx(NetDef(name="net", op=ops), init, outputs=["boxes"])
    shapes = {
        each.name: [dim.dim_param or dim.dim_value for dim in each.type.tensor_type.shape.dim]
        for each in model.graph.input
    }
    assert shapes["im_info"] == ["N", 3]
    assert shapes["scores"][:2] == ["N", 3]
    assert shapes["bbox_deltas"][:2] == ["N", 12]

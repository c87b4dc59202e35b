"""GenerateProposals: the ranks of its operands."""

from __future__ import annotations

import pytest
from conformance.recording import operator
from support.exports import export

from caffe2_bridge.diagnostics import ConversionError

RANKS = {"scores": 4, "bbox_deltas": 4, "im_info": 2, "anchors": 2}


@pytest.mark.parametrize("name", RANKS)
def test_operands_of_other_ranks_are_refused(name: str) -> None:
    ranks = RANKS | {name: RANKS[name] - 1}
    with pytest.raises(ConversionError, match=f"{name} must have rank"):
        export(
            operator("GenerateProposals", list(RANKS), ["rois", "probs"]),
            {each: ("float32", (None,) * rank) for each, rank in ranks.items()},
        )

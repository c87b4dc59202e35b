"""Arguments of recurrent_net that are refused, and operator types that a misspelled one is like."""

from __future__ import annotations

import pytest
from conformance.recording import operator

from caffe2_bridge.builder.operator_names import nearby_operator_types, operator_types
from caffe2_bridge.builder.recurrent_checks import require_cell_blobs, require_pairs, require_result_indices
from caffe2_bridge.diagnostics import BuildError
from caffe2_bridge.proto.caffe2_pb2 import NetDef


@pytest.mark.parametrize("pairs", ["ab", 3, [("a", "b"), "cd"], [("a", "b", "c")]])
def test_pairs(pairs: object) -> None:
    require_pairs([("a", "b"), ["c", "d"]], "links")
    with pytest.raises(BuildError, match=r"^links must (be a list of|hold) pairs"):
        require_pairs(pairs, "links")


@pytest.mark.parametrize("indices", ["0", 3, [4], [-1], [0, 0], [1.0]])
def test_indices_of_results(indices: object) -> None:
    require_result_indices([0, 3], 2)
    with pytest.raises(BuildError, match=r"^outputs_with_grads must be a list of indices of the 4 results"):
        require_result_indices(indices, 2)


@pytest.mark.parametrize("names", ["h", 3, ["h", "x"]])
def test_blobs_of_the_cell(names: object) -> None:
    cell = NetDef(op=[operator("Tanh", ["x"], ["h"])])
    require_cell_blobs(cell, {"h"})
    with pytest.raises(BuildError, match="collection of blobs that the cell writes"):
        require_cell_blobs(cell, names)


def test_types_close_to_a_misspelled_one() -> None:
    assert nearby_operator_types("Rellu")[0] == "Relu"
    assert nearby_operator_types("SpatialBm")[0] == "SpatialBN"
    assert nearby_operator_types("NothingLikeThis") == []
    assert not any("_ENGINE_" in name for name in operator_types())

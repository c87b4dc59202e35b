"""Losses: sizes that stay out of the graph, and hierarchies that are malformed."""

from __future__ import annotations

import pytest
from conformance.recording import operator
from support.exports import Specs, export

from caffe2_bridge.diagnostics import ConversionError


def test_sizes_are_not_in_the_graph() -> None:
    op = operator("LambdaRankNdcg", ["y", "r", "n"], ["loss", "slope"])
    scores = ("float32", ("N",))
    one = export(op, {"y": scores, "r": scores, "n": ("int32", (1,))})
    many = export(op, {"y": scores, "r": scores, "n": ("int32", (1000,))})
    assert len(one.graph.node) == len(many.graph.node)


@pytest.mark.parametrize("hierarchy", [b"", b"\x12", b"\x12\x08\x12\x06\x10\xff\xff\xff\xff\x07"])
def test_what_is_no_hierarchy_is_refused(hierarchy: bytes) -> None:
    weights: Specs = {"X": ("float32", ("N", 5)), "W": ("float32", (13, 5)), "b": ("float32", (13,))}
    op = operator("HSoftmax", ["X", "W", "b", "l"], ["Y", "Z"], hierarchy=hierarchy)
    with pytest.raises(ConversionError, match="hierarchy"):
        export(op, {**weights, "l": ("int32", ("N",))})

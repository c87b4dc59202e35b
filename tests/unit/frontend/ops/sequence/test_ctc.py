"""CTC decoders: graphs whose size does not depend on the length of the sequence, and element types."""

from __future__ import annotations

from collections import Counter

import pytest
from conformance.recording import operator
from support.exports import export, node_types

from caffe2_bridge.diagnostics import ConversionError


@pytest.mark.parametrize(
    ("op_type", "loop"),
    [("CTCBeamSearchDecoder", "Loop"), ("CTCGreedyDecoder", None)],
)
def test_a_decoder_is_as_large_for_long_sequences_as_for_short_ones(op_type: str, loop: str | None) -> None:
    outputs = ["len", "values", "prob"] if loop else ["len", "values"]
    short, long = (
        Counter(node_types(export(operator(op_type, ["X"], outputs), {"X": ("float32", (steps, 3, 5))}).graph))
        for steps in (2, 500)
    )
    assert short == long
    assert loop is None or short[loop] == 1


@pytest.mark.parametrize(("op_type", "count"), [("CTCBeamSearchDecoder", 3), ("CTCGreedyDecoder", 2)])
def test_scores_are_floating_point_numbers(op_type: str, count: int) -> None:
    op = operator(op_type, ["X"], [f"y{index}" for index in range(count)])
    with pytest.raises(ConversionError, match="not INT16"):
        export(op, {"X": ("int16", (2, 3, 5))})

"""Converters of sequences and segments: dims, and sums with several threads."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator
from support.exports import Specs, dims, export, run

from caffe2_bridge.proto.caffe2_pb2 import OperatorDef

ROWS: Specs = {"X": ("float32", ("N", "D")), "L": ("int32", ("S",))}


TABLE: Specs = {"X": ("float32", ("R", "D")), "I": ("int64", ("N",)), "L": ("int32", ("S",))}


@pytest.mark.parametrize(
    ("op", "inputs", "expected"),
    [
        (operator("LengthsSum", ["X", "L"], ["Y"]), ROWS, ["S", "D"]),
        (operator("LengthsMax", ["X", "L"], ["Y"]), ROWS, ["S", "D"]),
        (operator("SparseLengthsMean", ["X", "I", "L"], ["Y"]), TABLE, ["S", "D"]),
        (operator("PackSegments", ["L", "X"], ["Y"], max_length=5), ROWS, ["S", 5, "D"]),
        (operator("SequenceMask", ["X", "L"], ["Y"], mode="sequence"), ROWS, ["N", "D"]),
        (operator("LengthsTopK", ["X", "L"], ["Y", "I"], k=3), {**ROWS, "X": ("float32", ("N",))}, ["S", 3]),
        (
            operator("ReversePackedSegs", ["X", "L"], ["Y"]),
            {**ROWS, "X": ("float32", ("T", "S", "D"))},
            ["T", "S", "D"],
        ),
    ],
    ids=lambda value: value.type if isinstance(value, OperatorDef) else "",
)
def test_dims_are_known(op: OperatorDef, inputs: Specs, expected: list[int | str]) -> None:
    assert dims(export(op, inputs)) == expected


def test_sums_are_right_with_several_threads() -> None:
    lengths = np.full(4, 20_000, "int32")
    inputs = {"X": np.ones((80_000, 3), "float32"), "L": lengths}
    model = export(operator("LengthsSum", ["X", "L"], ["Y"]), ROWS)
    for _ in range(5):
        np.testing.assert_array_equal(run(model, inputs, threads=4)[0], np.full((4, 3), 20_000, "float32"))

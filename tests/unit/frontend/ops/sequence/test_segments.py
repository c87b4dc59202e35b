"""Converters of sequences and segments: dims, and sums with several threads."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator
from support.exports import Specs, dims, export, run

from caffe2_bridge.diagnostics import ConversionError
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


@pytest.mark.parametrize("lengths", [(2,), (3,), ("S",)])
def test_segments_are_laid_out_in_a_static_width(lengths: tuple[int | str, ...]) -> None:
    """ONNX's shape inference takes a column of static size for a vector, which it refuses to add to another one."""
    inputs: Specs = {"lengths": ("int32", lengths), "data": ("float32", ("N", 1))}
    assert dims(export(operator("PackSegments", list(inputs), ["packed"], max_length=5), inputs)) == [*lengths, 5, 1]


def test_padding_of_static_width_is_gathered() -> None:
    inputs: Specs = {"data": ("float32", ("N", 1)), "lengths": ("int32", (2,))}
    op = operator("GatherPadding", list(inputs), ["sum"], padding_width=3)
    (total,) = run(export(op, inputs), {"data": np.ones((14, 1), np.float32), "lengths": np.array([7, 7], np.int32)})
    np.testing.assert_array_equal(total, [12])


def test_parts_of_lengths_are_an_int32() -> None:
    with pytest.raises(ConversionError, match="'n_split' must fit into 32 bits"):
        export(operator("LengthsSplit", ["L"], ["Y"], n_split=2**32), {"L": ("int32", ("S",))})


def test_many_parts_of_lengths_are_not_a_constant() -> None:
    model = export(operator("LengthsSplit", ["L"], ["Y"], n_split=2**31 - 1), {"L": ("int32", ("S",))})
    assert model.ByteSize() < 10_000

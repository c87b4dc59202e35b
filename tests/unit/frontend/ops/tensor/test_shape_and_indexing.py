"""Converters of shapes and indices: named dims, refusals, strings."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from conformance.recording import operator
from support.exports import Specs, dims, export, run

from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef

ROWS = {"X": ("float32", ("N", 4))}


BLOCK = {"X": ("float32", ("N", "T", "D"))}


@pytest.mark.parametrize(
    ("op", "inputs", "expected"),
    [
        (operator("Reshape", ["X"], ["Y", "old"], shape=[0, 2, 2]), ROWS, ["N", 2, 2]),
        (operator("Transpose", ["X"], ["Y"], axes=[1, 0, 2]), BLOCK, ["T", "N", "D"]),
        (operator("ExpandDims", ["X"], ["Y"], dims=[0]), BLOCK, [1, "N", "T", "D"]),
        (operator("ResizeLike", ["A", "X"], ["Y"]), {**BLOCK, "A": ("float32", (None,))}, ["N", "T", "D"]),
        (operator("Concat", ["X", "X"], ["Y", "split"], axis=1, add_axis=1), ROWS, ["N", 2, 4]),
        (operator("Split", ["X"], ["Y", "Z"], axis=1), ROWS, ["N", 2]),
        (operator("Slice", ["X"], ["Y"], starts=[0, 1], ends=[-1, -2]), ROWS, ["N", 2]),
        (operator("Gather", ["X", "I"], ["Y"]), {**ROWS, "I": ("int64", ("K",))}, ["K", 4]),
        (operator("ScatterAssign", ["X", "I", "R"], ["X"]), {**ROWS, "I": ("int32", ("K",)), "R": ROWS["X"]}, ["N", 4]),
        (operator("TopK", ["X"], ["Y", "I"], k=2), ROWS, ["N", 2]),
        (operator("ArgMax", ["X"], ["Y"], axis=1), BLOCK, ["N", 1, "D"]),
        (operator("Bucketize", ["X"], ["Y"], boundaries=[0.0, 1.0]), BLOCK, ["N", "T", "D"]),
    ],
    ids=lambda value: value.type if isinstance(value, OperatorDef) else "",
)
def test_named_dims_are_kept(op: OperatorDef, inputs: Specs, expected: list[int | str]) -> None:
    assert dims(export(op, inputs)) == expected


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        (operator("Concat", ["X", "X"], ["Y", "s"], axis=1, order="NCHW"), ROWS),
        (operator("Transpose", ["X"], ["Y"], axes=[0, 2, 1]), ROWS),
        (operator("Gather", ["X", "I"], ["Y"], match_outer=1), {**ROWS, "I": ("int64", (None,))}),
        (operator("Unique", ["X"], ["Y"]), ROWS),
        (operator("StringPrefix", ["X"], ["Y"], length=-1), {"X": ("str", (None,))}),
        (operator("StringJoin", ["X"], ["Y"]), ROWS),
    ],
    ids=lambda value: value.type if isinstance(value, OperatorDef) else "",
)
def test_what_cannot_be_is_refused(op: OperatorDef, inputs: Specs) -> None:
    with pytest.raises(ConversionError):
        export(op, inputs)


def test_a_prefix_of_other_than_ascii_ends_the_run() -> None:
    model = export(operator("StringPrefix", ["X"], ["Y"], length=2), {"X": ("str", (None,))})
    assert run(model, {"X": np.array(["abc"], object)})[0].tolist() == ["ab"]
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument, match="out of data bounds"):
        run(model, {"X": np.array(["\u00e9"], object)})


def test_lengths_of_a_shape_in_another_order_keep_their_meaning() -> None:
    op = operator("Reshape", ["X", "S"], ["Y", "old"])
    model = export(op, {"X": ("float32", (None, None)), "S": ("int32", (3,))})
    y, old = run(model, {"X": np.zeros((4, 6), np.float32), "S": np.array([2, 0, -1], np.int32)})
    assert y.shape == (2, 6, 2)
    assert old.dtype == np.int32


def test_a_dim_that_is_kept_beyond_the_rank_is_refused() -> None:
    op = operator("Reshape", ["X"], ["Y", "_"], shape=[0, 0, 0])
    with pytest.raises(ConversionError, match=r"a 0 beyond the rank of X \(2\)"):
        export(op, {"X": ("float32", (None, None))})


@pytest.mark.parametrize("axis", [0, 1])
def test_a_table_without_rows_is_returned(axis: int) -> None:
    """Gather as real Caffe2 does, whatever the indices."""
    shape = (3, 0) if axis else (0, 3)
    model = export(operator("Gather", ["X", "I"], ["Y"], axis=axis), {"X": ("float32", shape), "I": ("int32", (2,))})
    (result,) = run(model, {"X": np.zeros(shape, np.float32), "I": np.array([0, 2], np.int32)})
    assert result.shape == shape


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize(("keepdims", "shape"), [(0, (2, 3)), (1, (2, 1, 3))])
def test_the_index_of_the_extreme_of_no_elements_is_0(op_type: str, keepdims: int, shape: tuple[int, ...]) -> None:
    inputs: Specs = {"X": ("float32", ("N", 0, "D"))}
    model = export(operator(op_type, ["X"], ["Y"], axis=1, keepdims=keepdims), inputs)
    (index,) = run(model, {"X": np.zeros((2, 0, 3), np.float32)})
    np.testing.assert_array_equal(index, np.zeros(shape, np.int64))

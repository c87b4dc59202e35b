"""Gradients of segment reductions: named dims, sizes that are known at run time alone, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator
from support.exports import Specs, dims, export, run

from caffe2_bridge.diagnostics import ConversionError

DY, LENGTHS = ("float32", ("S", "D")), ("int32", ("S",))


def test_one_row_per_index() -> None:
    inputs: Specs = {"dY": DY, "lengths": LENGTHS, "indices": ("int64", ("N",))}
    op = operator("SparseLengthsIndicesInGradientMeanGradient", ["dY", "lengths", "indices"], ["dX"])
    model = export(op, inputs)
    assert dims(model) == ["N", "D"]
    dy, lengths = np.array([[2, 4], [9, 9], [1, 3]], np.float32), np.array([2, 0, 1], np.int32)
    (dx,) = run(model, {"dY": dy, "lengths": lengths, "indices": np.array([4, 0, 4])})
    np.testing.assert_array_equal(dx, [[1, 2], [1, 2], [1, 3]])


def test_rows_follow_from_lengths() -> None:
    model = export(operator("LengthsSumGradient", ["dY", "lengths"], ["dX"]), {"dY": DY, "lengths": LENGTHS})
    dy = np.array([[1, 2], [3, 4]], np.float32)
    (dx,) = run(model, {"dY": dy, "lengths": np.array([1, 3], np.int32)})
    np.testing.assert_array_equal(dx, dy[[0, 1, 1, 1]])


def test_gradient_of_weights_has_their_dims() -> None:
    inputs: Specs = {
        "weights": ("float32", ("N",)),
        "dY": DY,
        "lengths": LENGTHS,
        "table": ("float32", ("R", "D")),
        "indices": ("int64", ("N",)),
    }
    model = export(operator("SparseLengthsWeightedSumWithMainInputGradient", list(inputs), ["dX", "dW"]), inputs)
    assert [dims(model, 0), dims(model, 1)] == [["N", "D"], ["N"]]


def test_shape_that_is_known_at_run_time() -> None:
    inputs: Specs = {"weights": ("float32", (None, None)), "dY": ("float32", ("D",)), "shape": ("int64", (3,))}
    op = operator("ReduceFrontWeightedSumGradient", list(inputs), ["dX"], num_reduce_dim=2)
    weights, dy = np.array([[1, 2, 3], [4, 5, 6]], np.float32), np.array([1, 10], np.float32)
    (dx,) = run(export(op, inputs), {"weights": weights, "dY": dy, "shape": np.array([2, 3, 2])})
    np.testing.assert_array_equal(dx, weights[:, :, None] * dy)


@pytest.mark.parametrize(
    ("op_type", "inputs", "message"),
    [
        ("LengthsSumGradient", {"dY": ("float64", (2, 3)), "lengths": ("int32", (2,))}, "the gradient must be FLOAT"),
        ("LengthsSumGradient", {"dY": ("float32", (2, 3)), "lengths": ("int64", (2,))}, "input 1 must be INT32"),
        ("LengthsSumGradient", {"dY": ("float32", (2, 3)), "lengths": ("int32", (3,))}, "must agree: 3 and 2"),
        (
            "UnsortedSegmentWeightedSumGradient",
            {"weights": ("float32", (4,)), "dY": ("float32", (2, 3)), "ids": ("int32", (3,))},
            "weights and rows must agree: 4 and 3",
        ),
        (
            "ReduceFrontWeightedSumGradient",
            {"weights": ("float32", (4,)), "dY": ("float32", (2,)), "shape": ("int32", (2,))},
            "the shape must be INT64",
        ),
    ],
)
def test_refusals(op_type: str, inputs: Specs, message: str) -> None:
    with pytest.raises(ConversionError, match=message):
        export(operator(op_type, list(inputs), ["dX"]), inputs)


def test_a_weight_per_row_needs_rows() -> None:
    """Real Caffe2 reads beyond its operands where no dim was reduced."""
    inputs: Specs = {"weights": ("float32", (3,)), "dY": ("float32", (2,)), "shape": ("int64", (2,))}
    with pytest.raises(ConversionError, match="num_reduce_dim must be positive, not 0"):
        export(operator("ReduceFrontWeightedSumGradient", list(inputs), ["dX"], num_reduce_dim=0), inputs)


def test_ranges_whose_result_has_another_rank() -> None:
    """A recurrent net gives its state a leading dim; Caffe2 reads the operands flat, and dX has the rank of dY."""
    specs: Specs = {"X": ("float32", (4, 3)), "Y": ("float32", (1, 1, 3)), "dY": ("float32", (1, 1, 3))}
    specs["ids"] = ("int32", (4,))
    net = operator("SortedSegmentRangeLogSumExpGradient", list(specs), ["dX"])
    x, dy = np.arange(12, dtype=np.float32).reshape(4, 3), np.array([[[1, 2, 3]]], np.float32)
    y = np.log(np.exp(x).sum(0)).astype(np.float32)
    (dx,) = run(export(net, specs), {"X": x, "Y": y[None, None], "dY": dy, "ids": np.zeros(4, np.int32)})
    np.testing.assert_allclose(dx, (dy[0] * np.exp(x - y))[:, None], rtol=1e-5)

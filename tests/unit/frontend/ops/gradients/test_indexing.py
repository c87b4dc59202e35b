"""Gradients of selections: sizes of run time, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator
from support.exports import Specs, dims, export, run

from caffe2_bridge.diagnostics import ConversionError

rng = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:  # type: ignore[type-arg] # of float32
    return rng.standard_normal(shape).astype(np.float32)


def test_repeated_indices_are_summed_at_sizes_of_run_time() -> None:
    specs: Specs = {
        "data": ("float32", ("N", "C", "D")), "index": ("int64", ("K",)), "dY": ("float32", ("N", "K", "D"))
    }  # fmt: skip
    model = export(operator("BatchGatherGradient", ["data", "index", "dY"], ["dX"]), specs)
    assert dims(model) == ["N", "C", "D"]
    dy, expected = floats(2, 3, 2), np.zeros((2, 4, 2), np.float32)
    np.add.at(expected, (slice(None), [1, 3, 1]), dy)
    (dx,) = run(model, {"data": expected, "index": np.array([1, 3, 1]), "dY": dy})
    np.testing.assert_allclose(dx, expected)


def test_outer_dims_that_match_need_an_axis() -> None:
    specs: Specs = {"data": ("float32", (2, 3)), "index": ("int32", (2,)), "dY": ("float32", (2, 3))}
    net = operator("BatchGatherGradient", ["data", "index", "dY"], ["dX"], axis=0, match_outer=1)
    with pytest.raises(ConversionError, match="match_outer requires axis"):
        export(net, specs)


@pytest.mark.parametrize("columns", [2, 3, 5])
def test_fewer_elements_than_k_at_run_time(columns: int) -> None:
    """Indices of elements that are missing are -1, which is the last element in ONNX."""
    specs: Specs = {"dV": ("float32", ("N", 3)), "index": ("int64", ("N", 3)), "X": ("float32", ("N", "C"))}
    model = export(operator("TopKGradient", ["dV", "index", "X"], ["dX"], k=3), specs)
    index, dy = np.array([[1, 0, 2], [0, 1, 2]]), floats(2, 3)
    index[:, columns:] = -1
    expected = np.zeros((2, columns), np.float32)
    for row in range(2):
        for column in range(min(columns, 3)):
            expected[row, index[row, column]] = dy[row, column]
    (dx,) = run(model, {"dV": dy, "index": index, "X": floats(2, columns)})
    np.testing.assert_array_equal(dx, expected)


def test_a_mask_of_a_size_of_run_time() -> None:
    specs: Specs = {"mask": ("bool", ("N",)), "dY": ("float32", ("K",))}
    model = export(operator("BooleanMaskGradient", ["mask", "dY"], ["dX"]), specs)
    assert dims(model) == ["N"]
    inputs = {"mask": np.array([True, False, True]), "dY": np.array([3, 4], np.float32)}
    np.testing.assert_array_equal(run(model, inputs)[0], [3, 0, 4])


def test_the_last_value_of_an_id_at_sizes_of_run_time() -> None:
    specs: Specs = {"ids": ("int64", ("N",)), "dY": ("float32", ("S", 2, "D")), "lengths": ("int32", ("S",))}
    net = operator("SparseToDenseMaskGradient", ["ids", "dY", "lengths"], ["dX"], mask=[5, 3])
    dy = floats(2, 2, 3)
    inputs = {"ids": np.array([3, 3, 5, 9]), "dY": dy, "lengths": np.array([2, 2], np.int32)}
    expected = np.stack([np.zeros(3), dy[0, 1], dy[1, 0], np.zeros(3)])
    np.testing.assert_array_equal(run(export(net, specs), inputs)[0], expected)


def test_codes_and_gradients_are_pairs() -> None:
    specs: Specs = {"book": ("float32", (4,)), "codes": ("uint8", (2,))}
    with pytest.raises(ConversionError, match="does not accept 2 inputs with 1 outputs"):
        export(operator("QuantDecodeGradient", ["book", "codes"], ["dX"]), specs)


def test_the_exponent_of_a_norm() -> None:
    specs: Specs = {"X": ("float32", (4,)), "dY": ("float32", (1,))}
    with pytest.raises(ConversionError, match="p must be 1 or 2, not 3"):
        export(operator("LpNormGradient", ["X", "dY"], ["dX"], p=3), specs)


@pytest.mark.parametrize("p", [1, 2])
def test_the_average_of_a_size_of_run_time(p: int) -> None:
    specs: Specs = {"X": ("float32", ("N", "C")), "dY": ("float32", (1,))}
    model = export(operator("LpNormGradient", ["X", "dY"], ["dX"], p=p, average=1), specs)
    x = floats(2, 3)
    (dx,) = run(model, {"X": x, "dY": np.array([3], np.float32)})
    np.testing.assert_allclose(dx, (np.sign(x) if p == 1 else 2 * x) * 3 / 6, rtol=1e-6)


def test_indices_of_top_elements_that_repeat_keep_the_last() -> None:
    specs: Specs = {"dV": ("float32", ("N",)), "index": ("int64", ("N",)), "X": ("float32", ("C",))}
    model = export(operator("TopKGradient", ["dV", "index", "X"], ["dX"], k=2), specs)
    feeds = {"dV": np.array([3, 4], np.float32), "index": np.array([1, 1]), "X": floats(2)}
    np.testing.assert_array_equal(run(model, feeds)[0], [0, 4])


@pytest.mark.parametrize(("index", "rows"), [([2, 0, 1], [1, 2, 0]), ([1, 1, 1], [0, 2, 0]), ([], [])])
def test_a_permutation_is_inverted_and_rows_without_an_index_are_the_first(index: list[int], rows: list[int]) -> None:
    model = export(
        operator("BatchPermutationGradient", ["index", "dY"], ["dX"]),
        {"index": ("int32", (None,)), "dY": ("float32", (None, None))},
    )
    dy = floats(len(index), 2)
    np.testing.assert_array_equal(run(model, {"index": np.array(index, np.int32), "dY": dy})[0], dy[rows])


def test_of_a_mask_of_rows_the_first_elements_are_read() -> None:
    model = export(
        operator("BooleanMaskGradient", ["mask", "dY"], ["dX"]), {"mask": ("bool", (None, 3)), "dY": ("float32", (2,))}
    )
    mask = np.array([[True, True, False], [True, True, True]])
    np.testing.assert_array_equal(run(model, {"mask": mask, "dY": np.array([5, 6], np.float32)})[0], [5, 6])

"""Gradients of distances: named dims, lengths of rows that are known at run time alone, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator
from support.exports import Specs, dims, export, run

from caffe2_bridge.diagnostics import ConversionError

ROWS: Specs = {"X": ("float32", ("N", "C")), "Y": ("float32", ("N", "C")), "dZ": ("float32", ("N",))}
FREE: Specs = {"X": ("float32", ("N", "A")), "Y": ("float32", ("N", "B")), "dZ": ("float32", ("N",))}


@pytest.mark.parametrize("kind", ["SquaredL2Distance", "L1Distance", "DotProduct", "CosineSimilarity"])
def test_named_dims_stay(kind: str) -> None:
    assert dims(export(operator(f"{kind}Gradient", ["X", "Y", "dZ"], ["dX", "dY"]), ROWS)) == ["N", "C"]


@pytest.mark.parametrize(("columns", "replicate"), [((3, 3), 0), ((2, 5), 0), ((5, 2), 0), ((2, 6), 1), ((6, 2), 1)])
def test_lengths_of_rows_at_run_time(columns: tuple[int, int], replicate: int) -> None:
    net = operator("DotProductWithPaddingGradient", ["X", "Y", "dZ"], ["dX", "dY"], pad_value=0.5, replicate=replicate)
    x, y = (np.arange(2 * count, dtype=np.float32).reshape(2, count) for count in columns)
    dz = np.array([2, 3], np.float32)
    longest, shortest = max(columns), min(columns)
    expected = []
    for own, other in ((x, y), (y, x)):
        if replicate:
            weight = np.tile(other, (1, longest // other.shape[1])) * dz[:, None]
            full = weight.reshape(2, -1, shortest)
            expected.append(weight if own.shape[1] == longest else full.sum(1))
        else:
            padded = np.pad(other, ((0, 0), (0, longest - other.shape[1])), constant_values=0.5)
            expected.append(padded[:, : own.shape[1]] * dz[:, None])
    for got, wanted in zip(run(export(net, FREE), {"X": x, "Y": y, "dZ": dz}), expected, strict=True):
        np.testing.assert_allclose(got, wanted)


def test_operands_do_not_broadcast() -> None:
    specs: Specs = {"X": ("float32", (2, 3)), "Y": ("float32", (1, 3)), "dZ": ("float32", (2,))}
    with pytest.raises(ConversionError, match="must have the same shape"):
        export(operator("DotProductGradient", ["X", "Y", "dZ"], ["dX", "dY"]), specs)


def test_repeated_rows_must_fit() -> None:
    specs: Specs = {"X": ("float32", (2, 5)), "Y": ("float32", (2, 3)), "dZ": ("float32", (2,))}
    net = operator("DotProductWithPaddingGradient", ["X", "Y", "dZ"], ["dX", "dY"], replicate=1)
    with pytest.raises(ConversionError, match="multiple of the other"):
        export(net, specs)

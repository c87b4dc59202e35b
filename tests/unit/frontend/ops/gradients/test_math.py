"""Gradients element by element: named dims, and operands that Caffe2 reads beyond their end."""

from __future__ import annotations

import pytest
from conformance.recording import operator
from support.exports import Specs, dims, export

from caffe2_bridge.diagnostics import ConversionError

SAME: Specs = {"X": ("float32", ("N", "C")), "dY": ("float32", ("N", "C"))}


@pytest.mark.parametrize("op_type", ["SinGradient", "CosGradient"])
def test_named_dims_stay(op_type: str) -> None:
    assert dims(export(operator(op_type, ["X", "dY"], ["dX"]), SAME)) == ["N", "C"]


@pytest.mark.parametrize("shape", [(3,), (2, 1)])
def test_operands_do_not_broadcast(shape: tuple[int, ...]) -> None:
    """Real Caffe2 computes as many elements as X has, whatever dY has: its outputs differ from run to run."""
    inputs: Specs = {"X": ("float32", (2, 3)), "dY": ("float32", shape)}
    with pytest.raises(ConversionError, match=r"must agree|must have the same shape"):
        export(operator("SinGradient", ["X", "dY"], ["dX"]), inputs)

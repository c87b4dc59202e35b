from __future__ import annotations

import pytest
from conformance.recording import operator
from support.exports import export

from caffe2_bridge.diagnostics import ConversionError


@pytest.mark.parametrize(
    ("op_type", "operands"),
    [("ReduceFrontSum", ("X", "n")), ("ReduceBackMax", ("X", "n")), ("ReduceBackMeanGradient", ("n", "X", "n"))],
)
def test_lengths_are_integers(op_type: str, operands: tuple[str, ...]) -> None:
    with pytest.raises(ConversionError, match="lengths must be INT32 or INT64, not FLOAT"):
        export(operator(op_type, operands, ["Y"]), {"X": ("float32", (2, 2)), "n": ("float32", (2,))})

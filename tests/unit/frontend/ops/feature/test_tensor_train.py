"""Tensor trains whose factors number no rows."""

from __future__ import annotations

import pytest
from conformance.recording import operator
from support.exports import export

from caffe2_bridge import ConversionError

INPUTS = {
    **{f"C{i}": ("float32", ("R", 1, 2, 1)) for i in range(3)},
    "I": ("int64", ("N",)),
    "L": ("int32", ("S",)),
}


@pytest.mark.parametrize("factors", [[0, 4, 2], [4, 0, 2]])
def test_factors_that_no_index_has_are_refused(factors: list[int]) -> None:
    args = {"factor_i": factors, "factor_j": [2, 2, 2], "emb_size": 8}
    op = operator("TTSparseLengthsSum", list(INPUTS), ["Y", "A", "B", "D"], **args)
    with pytest.raises(ConversionError, match="must number rows"):
        export(op, INPUTS)


def test_the_last_factor_divides_nothing() -> None:
    args = {"factor_i": [3, 4, 0], "factor_j": [2, 2, 2], "emb_size": 8}
    export(operator("TTSparseLengthsSum", list(INPUTS), ["Y", "A", "B", "D"], **args), INPUTS)

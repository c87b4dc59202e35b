"""Blobs that an operator must find under the name that it writes."""

from __future__ import annotations

import pytest

from caffe2_bridge.ssa.in_place import SPECIAL_TYPES, updated


@pytest.mark.parametrize(
    ("op_type", "inputs", "outputs", "names"),
    [
        ("Relu", ["x"], ["x"], []),
        ("SparseAdagrad", ["w", "m", "i", "g", "lr"], ["w", "m"], ["w", "m"]),
        ("SparseAdagrad", ["w", "m", "i", "g", "lr"], ["w", "other"], ["w"]),
        ("SpatialBN", ["x", "s", "b", "m", "v"], ["y", "m", "v", "sm", "sv"], ["m", "v"]),
        ("SpatialBN", ["x", "s", "b", "m", "v"], ["m"], []),
        ("MomentumSGDUpdate", ["g", "m", "lr", "w"], ["g", "m", "w"], ["w"]),
        ("Iter", [], ["i"], ["i"]),
        ("Iter", ["i"], ["i"], ["i"]),
        ("Accumulate", ["x"], ["total"], ["total"]),
    ],
)
def test_updated_blobs(op_type: str, inputs: list[str], outputs: list[str], names: list[str]) -> None:
    assert updated(op_type, inputs, outputs) == names
    assert op_type in SPECIAL_TYPES or not names

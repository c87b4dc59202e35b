"""What follows from signatures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_bridge.netdef.views import ArgumentError, OpView
from caffe2_bridge.operators.describe import signature_of
from caffe2_bridge.operators.signature import parse


@pytest.mark.parametrize(
    ("text", "inputs", "outputs", "expected"),
    [
        # Dims, and products of dims.
        ("A[M, K], B[K, 3] -> Y[M, 3]", [None, (4, None)], [(5, None)], [(5, 4), (4, 3), (5, 3)]),
        ("X[2*C] -> Y[C]", [(8,)], [None], [(8,), (4,)]),
        ("X[2*C] -> Y[C]", [(7,)], [None], [(7,), (None,)]),
        ("X[A*D], Y[A, D]-> Z", [(12,), (3, None)], [None], [(12,), (3, 4), None]),
        # Groups: their lengths follow from ranks, also around each other, and from what is written.
        ("X[R, *D], I[*Q] -> Y[*Q, *D]", [(9, 4), None], [(5, 6, None)], [(9, 4), (5, 6), (5, 6, 4)]),
        ("X[N, *S] -> Y[N, *S']", [(2, 8, 8)], [None], [(2, 8, 8), (2, None, None)]),
        ("X[*L{1}, *R] -> Y[L, R]", [(2, 3, 4)], [None], [(2, 3, 4), (2, 12)]),
        ("X[*L{-1}, *R] -> Y[L, R]", [(2, 3, 4)], [None], [(2, 3, 4), (6, 4)]),
        # A rank that no tensor has is none: such an argument would ask for as much memory.
        ("X[*L{2147483647}, *R] -> Y[L, R]", [(2, 3, 4)], [None], [(2, 3, 4), (None, None)]),
        ("X[*L{-2147483647}, *R] -> Y[L, R]", [None], [None], [None, (None, None)]),
        # Dims that count as one.
        ("X[*D{1}, ~K]; W[M, ~K] -> Y[*D, M]", [(2, 3, 4), (5, None)], [None], [(2, 3, 4), (5, 12), (2, 5)]),
        ("X[*D{1}, ~K]; W[M, ~K] -> Y[*D, M]", [(2, None, 4), (5, 12)], [None], [(2, 3, 4), (5, 12), (2, 5)]),
        # Sums.
        ("X...[+J, N] -> Y[J, N]", [(2, 3), (4, None)], [None], [(2, 3), (4, 3), (6, 3)]),
        ("X...[+J] -> Y[J]", [(2,), (None,)], [(5,)], [(2,), (3,), (5,)]),
        ("X[J] -> Y...[+J]", [(5,)], [(2,), (None,)], [(5,), (2,), (3,)]),
        # What has another rank says nothing and stays; a name is no size, and stays.
        ("X[N, C] -> Y[N, C]", [(2, 3, 4)], [None], [(2, 3, 4), (None, None)]),
        ("X[N, C] -> Y[N, C]", [("N", 3)], [None], [("N", 3), (None, 3)]),
        # More operands than are described, and fewer.
        ("X[N], Z[N] -> Y[N], A[N]", [(2,)], [None], [(2,), (2,)]),
        ("X[N] -> Y[N]", [(2,), (3,)], [None], [(2,), (3,), (2,)]),
    ],
)  # fmt: skip
def test_shapes_follow_from_each_other(text: str, inputs: list[Any], outputs: list[Any], expected: list[Any]) -> None:
    assert parse(text).infer(inputs, outputs) == expected


def test_what_is_usual_counts_on_request_alone() -> None:
    signature = parse("X[N, *S:2], slope[N?] -> Y")
    assert signature.infer([None, (None,)], [None]) == [None, (None,), None]
    assert signature.infer([None, (None,)], [None], usual=True) == [(None,) * 3, (None,), None]
    assert signature.infer([(4, 5), None], usual=True) == [(4, 5), (4,)]


def test_sizes_may_be_arrays_and_what_differs_is_told() -> None:
    sides = np.arange(1, 5)
    found: list[Any] = []
    signature = parse("X[*D{1}, ~K]; W[M, ~K] -> Y[*D, M]")
    shapes = signature.infer([(2, 3, sides), (5, 9)], [None], differs=lambda a, b: found.append(np.asarray(a == b)))
    assert shapes[2] == (2, 5)
    assert list(sides[np.logical_and.reduce(np.broadcast_arrays(*found))]) == [3]


def test_arguments_are_part_of_a_signature() -> None:
    conv = operator("Conv", ["x", "w", "b"], ["y"], kernel=3, group=2, order="NHWC")
    signature = signature_of(OpView(conv, 0))
    assert signature is not None
    assert [signature.is_parameter(index) for index in range(4)] == [False, True, True, False]
    assert signature.infer([(1, 8, 8, 6), None, None], [(1, 6, 6, 10)])[1:3] == [(10, 3, 3, 3), (10,)]
    wrong = operator("FC", ["x", "w", "b"], ["y"], axis=2.0)
    with pytest.raises(ArgumentError, match="'axis' must be an integer"):
        signature_of(OpView(wrong, 0))
    assert signature_of(OpView(operator("NeverHeardOf", ["x"], ["y"]), 0)) is None


def test_a_mistake_in_a_signature_is_named() -> None:
    with pytest.raises(ValueError, match=r"'\*' is no term of a signature"):
        parse("X[*] -> Y")

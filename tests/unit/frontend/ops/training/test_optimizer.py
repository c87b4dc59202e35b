"""Optimizers keep named dims, and what counts iterations is an integer."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator
from support.caffe2_cases import assert_refused
from support.exports import Specs, dims, export

from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef

TABLE: Specs = {
    "param": ("float32", ("R", "D")),
    "moment": ("float32", ("R", "D")),
    "indices": ("int64", ("K",)),
    "grad": ("float32", ("K", "D")),
    "lr": ("float32", (1,)),
}


STATE: Specs = {"w": ("float32", ("R", "D")), "m": ("float32", ("R", "D")), "g": ("float32", ("R", "D"))}


@pytest.mark.parametrize(
    ("op", "inputs", "expected"),
    [
        (operator("SparseAdagrad", list(TABLE), ["param", "moment"]), TABLE, [["R", "D"], ["R", "D"]]),
        (operator("MomentumSGD", ["g", "m", "w"], ["go", "mo"]), STATE, [["R", "D"], ["R", "D"]]),
    ],
    ids=["SparseAdagrad", "MomentumSGD"],
)
def test_named_dims_stay(op: OperatorDef, inputs: Specs, expected: list[list[int | str]]) -> None:
    model = export(op, inputs)
    assert [dims(model, index) for index in range(len(op.output))] == expected


@pytest.mark.parametrize("op", [operator("Iter", ["i"], ["i"]), operator("AtomicIter", ["mutex", "i"], ["i"])])
def test_iterations_are_counted_in_integers(op: OperatorDef) -> None:
    mutex = operator("CreateMutex", [], ["mutex"])
    assert dims(export([mutex, op], {"i": ("int64", (1,))}), 0) == [1]
    with pytest.raises(ConversionError, match="the iteration number must be INT32 or INT64, not BOOL"):
        export([mutex, op], {"i": ("bool", (1,))})


def test_an_iteration_number_is_no_bool() -> None:
    assert_refused("Iter", [np.array([True])])

"""Ties, NaN, empty axes and other elements at which kernels part: what real Caffe2 computes, with ranks alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest
from conformance.compare import mismatches
from conformance.corpus import Array
from conformance.oracle import OracleRun, OracleServer
from conformance.recording import ArgumentValue, operator
from support.exports import export, run, specs_of

from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef


@dataclass(frozen=True)
class Case:
    """An operator, its operands in order, and its outputs in real Caffe2."""

    op_type: str
    operands: tuple[Array, ...]
    results: tuple[Array, ...]
    args: Mapping[str, ArgumentValue] = field(default_factory=dict)

    @property
    def op(self) -> OperatorDef:
        inputs = [f"x{index}" for index in range(len(self.operands))]
        return operator(self.op_type, inputs, [f"y{index}" for index in range(len(self.results))], **self.args)

    @property
    def fed(self) -> dict[str, Array]:
        return {f"x{index}": array for index, array in enumerate(self.operands)}

    @property
    def expected(self) -> dict[str, Array]:
        return {f"y{index}": array for index, array in enumerate(self.results)}


def floats(*values: float) -> Array:
    return np.array(values, np.float32)


def integers(*values: int) -> Array:
    return np.array(values, np.int32)


CASES = {
    "an axis of no elements is split": Case(
        "Split", (np.zeros((0, 2), np.int64),), (np.zeros((0, 2), np.int64),) * 3, {"axis": 0}
    ),
    "an axis of no elements is gated": Case("Glu", (np.zeros((2, 0), np.float32),), (np.zeros((2, 0), np.float32),)),
    "an element is halfway between two codes": Case(
        "FloatToFusedRandRowwiseQuantized",
        (floats(0, 0.5, 1, 0.5).reshape(1, 4),),
        (np.array([[2, 0, 0, 0, 0, 0, 0, 0, 128, 63, 0b01110100]], np.uint8),),
        {"bitwidth": 2, "random": 0},
    ),
    "there are no regions": Case(
        "RoIAlignRotated",
        (np.ones((1, 3, 4, 4), np.float32), np.zeros((0, 6), np.float32)),
        (np.zeros((0, 3, 1, 1), np.float32),),
    ),
}
REFUSED = {
    "a kernel whose area 64 bits do not hold": Case(
        "Im2Col", (np.zeros((1, 1, 2, 2), np.float32),), (floats(),), {"kernel": 1 << 32}
    ),
    "an iteration number that is a bool": Case("Iter", (np.array([True]),), (np.array([1]),)),
    "sequences of bools to be padded": Case(
        "VariableLengthSequencePadding", (np.ones((1, 1, 1), bool), integers(0)), (np.zeros((1, 1, 1), bool),)
    ),
    "a length that is no vector": Case(
        "LengthsTopK", (np.zeros((), np.float32), np.array(0, np.int32)), (floats(0), integers(0)), {"k": 1}
    ),
    "a function without intercepts": Case(
        "PiecewiseLinearTransform", (floats(0), floats(0, 1), floats(1)), (floats(0),), {"binary": 1}
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_edge_values(name: str) -> None:
    case = CASES[name]
    values = run(export(case.op, specs_of(case.fed, sizes=False)), case.fed)
    assert mismatches(case.expected, dict(zip(case.expected, values, strict=True))) == []


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    case = REFUSED[name]
    with pytest.raises(ConversionError):
        export(case.op, specs_of(case.fed, sizes=False))


@pytest.mark.oracle
@pytest.mark.slow
def test_edge_values_are_those_of_caffe2() -> None:
    runs = [OracleRun(NetDef(op=[case.op]), case.fed, outputs=list(case.expected)) for case in CASES.values()]
    with OracleServer() as oracle:
        for name, case, real in zip(CASES, CASES.values(), oracle.run_all(runs), strict=True):
            assert not isinstance(real, Exception), name
            assert not real.error, (name, real.error)
            assert mismatches(real.outputs, case.expected) == [], name

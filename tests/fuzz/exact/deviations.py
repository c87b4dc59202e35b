"""Where the conversion knowingly does not do what Caffe2 does, with the reasons that docs/testing.md gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from conformance.corpus import Array

from caffe2_bridge.control import all_operators
from caffe2_bridge.netdef.views import NetView
from fuzz.exact.drawn import Drawn

Arrays = Mapping[str, Array]
Applies = Callable[[Drawn, Arrays, Arrays], bool]


@dataclass(frozen=True)
class Deviation:
    """Operator types whose results may differ for a reason, and whether a case gives it cause.

    ``may_fail``: the model may also fail to run.
    """

    reason: str
    types: frozenset[str]
    applies: Applies
    may_fail: bool = False


def _has_nan(drawn: Drawn, expected: Arrays, actual: Arrays) -> bool:
    arrays = (*drawn.inputs.values(), *expected.values(), *actual.values())
    return any(array.dtype.kind == "f" and bool(np.isnan(array).any()) for array in arrays)


def _is_not_finite(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether an operand or an argument is not finite."""
    numbers = np.array([arg.f for op in drawn.net.op for arg in op.arg])
    arrays: list[Array] = [numbers, *(array for array in drawn.inputs.values() if array.dtype.kind == "f")]
    return not all(np.isfinite(array).all() for array in arrays)


def _always(_: Drawn, __: Arrays, ___: Arrays) -> bool:
    return True


def _overflows(_: Drawn, expected: Arrays, actual: Arrays) -> bool:
    """Whether results differ only where Caffe2's are infinite."""
    pairs = [(array, actual[name]) for name, array in expected.items()]
    if any(one.shape != other.shape or one.dtype.kind != "f" for one, other in pairs):
        return False
    return all(
        np.allclose(one[finite], other[finite], 1e-3, 1e-4, equal_nan=True)
        for one, other in pairs
        for finite in [np.isfinite(one)]
    )


def _has_constant_rows(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether the deviation of a row is small beside its mean."""
    for array in drawn.inputs.values():
        if array.dtype.kind == "f" and array.ndim > 1 and array.size:
            rows = array.reshape(len(array), -1).astype(np.float64)
            with np.errstate(all="ignore"):
                if (rows.std(axis=1) <= 3e-3 * np.abs(rows).max(axis=1)).any():
                    return True
    return False


def _has_no_rows(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    return any(0 in array.shape for array in drawn.inputs.values())


DEVIATIONS: Final = (
    Deviation(
        "a NaN among what is compared: Caffe2's result depends on the order of the elements",
        frozenset(
            [
                "MaxPool",
                "MaxPool1D",
                "MaxPool2D",
                "MaxPool3D",
                "Max",
                "Min",
                "ReduceMax",
                "ReduceMin",
                "ReduceFrontMax",
                "ReduceBackMax",
                "RowwiseMax",
                "ColwiseMax",
                "TopK",
                "ArgMax",
                "ArgMin",
                "Sign",
                "LengthsMax",
                "SortedSegmentRangeMax",
                "LengthsTopK",
                "Clip",
                "Accuracy",
                "SelfBinningHistogram",
                "Quantile",
                "Percentile",
                "Bucketize",
                "MaxPoolGradient",
                "MaxPool2DGradient",
                "MaxPool1DGradient",
                "MaxPool3DGradient",
                "MaxGradient",
                "MinGradient",
                "ReduceMaxGradient",
                "ReduceMinGradient",
                "LengthsMaxWithMainInputAndForwardOutputGradient",
            ]
        ),
        _has_nan,
    ),
    Deviation(
        "a slope or a factor that is not finite meets a 0 that ONNX's operator does not multiply",
        frozenset(
            {
                "PRelu",
                "PReluGradient",
                "LeakyRelu",
                "LeakyReluGradient",
                "Elu",
                "Selu",
                "MaxPool",
                "Swish",
                "SwishGradient",
            }
        ),
        _is_not_finite,
    ),
    Deviation(
        "a stored scale or bias that is not finite",
        frozenset(f"Fused{bits}BitRowwiseQuantizedTo{kind}" for bits in (2, 4, 8) for kind in ("Float", "HalfFloat")),
        _overflows,
    ),
    Deviation(
        "Caffe2 computes log(exp(x) + 1), which is infinite from 88.7 on; ONNX's Softplus is not",
        frozenset({"Softplus"}),
        _overflows,
    ),
    Deviation(
        "the variance of nearly equal elements: Caffe2 subtracts the squared mean from the mean square, which leaves "
        "rounding errors, or a NaN",
        frozenset(
            {
                "LayerNorm",
                "LayerNormGradient",
                "InstanceNorm",
                "GroupNorm",
                "BatchMoments",
                "SpatialBN",
                "C10LayerNorm_DontUseThisOpYet",
                "RowwiseMoments",
            }
        ),
        _has_constant_rows,
    ),
    Deviation(
        "operands of a gradient that contradict each other, and that Caffe2 does not compare",
        frozenset({"DivGradient", "ReduceFrontWeightedSumGradient", "SliceGradient"}),
        _always,
    ),
    Deviation(
        "a table without rows, of which the conversion knows the rank alone: Caffe2 returns it, whatever the indices",
        frozenset({"Gather", "BatchGather"}),
        _has_no_rows,
        may_fail=True,
    ),
)


def deviation(drawn: Drawn, expected: Arrays, actual: Arrays) -> str:
    """The reason why the results of a case may differ, or why it may fail without any; empty if none applies."""
    types = {op.type for op in all_operators(NetView(drawn.net))}
    known = (each for each in DEVIATIONS if each.may_fail or expected)
    return next((each.reason for each in known if types & each.types and each.applies(drawn, expected, actual)), "")

"""Known faults of real Caffe2 inside of the domain. What roundings change is measured: ``fuzz.exact.roundings``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from conformance.compare import mismatches
from conformance.corpus import Array

from caffe2_bridge.control import all_operators
from caffe2_bridge.netdef.views import NetView
from fuzz.exact.drawing.drawn import Drawn

Arrays = Mapping[str, Array]


@dataclass(frozen=True)
class Deviation:
    """Operators of some types, or of any, that may differ, and whether a case with its results gives them cause."""

    reason: str
    types: frozenset[str]
    applies: Callable[[Drawn, Arrays, Arrays], bool]


def _overflows(_: Drawn, expected: Arrays, actual: Arrays) -> bool:
    """Whether results differ only where those of real Caffe2 are infinite."""
    floats = {name: one for name, one in expected.items() if one.dtype.kind == "f" and one.shape == actual[name].shape}
    settled = {name: np.where(np.isinf(one), one, actual[name]) for name, one in floats.items()}
    return not mismatches(expected, {**actual, **settled})


def _is_retyped_in_place(drawn: Drawn, expected: Arrays, _: Arrays) -> bool:
    """Whether an operator gives the operand that it overwrites another element type."""
    shared = {name for op in drawn.net.op for name in {*op.input} & {*op.output} & drawn.inputs.keys()}
    return any(name in expected and expected[name].dtype != drawn.inputs[name].dtype for name in shared)


def _differs_in_types_of_nothing(drawn: Drawn, expected: Arrays, actual: Arrays) -> bool:
    """Whether results for operands of which one has no elements, or without elements, differ in element type alone."""
    arrays = (*drawn.inputs.values(), *expected.values())
    cast = {name: actual[name].astype(one.dtype) for name, one in expected.items() if one.dtype.kind != "O"}
    return not all(array.size for array in arrays) and not mismatches(expected, {**actual, **cast})


def _saturates_pairs(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether two products of bytes and neighbouring signed weights may leave 16 bits, in an operator of DNNLOWP."""
    for op in drawn.net.op:
        x, w = (drawn.inputs.get(name) for name in op.input[:2]) if "DNNLOWP" in op.engine else (None, None)
        if x is not None and w is not None and x.size and w.ndim > 1:
            rows = w.reshape(len(w), -1).astype(int) - 128
            pairs = rows[:, : rows.shape[1] // 2 * 2].reshape(-1, 2)
            most = max(abs(pairs.clip(*bounds).sum(axis=1)).max(initial=0) for bounds in ((0, None), (None, 0)))
            return bool(most * int(x.max()) > np.iinfo(np.int16).max)
    return False


_ANY: Final[frozenset[str]] = frozenset()
DEVIATIONS: Final = (
    Deviation(
        "Caffe2 computes an exponential that is infinite from 88.7 on, where the result is not",
        frozenset({"Softplus", "SinhGradient", "LambdaRankNdcg"}),
        _overflows,
    ),
    Deviation(
        "Caffe2's engine DNNLOWP adds pairs of products of bytes in 16 bits, where they saturate",
        frozenset({"Int8Conv", "Int8ConvRelu", "Int8FC", "Int8FCRelu"}),
        _saturates_pairs,
    ),
    Deviation(
        "Caffe2's kernels do not look at the element type of no elements, and return their own",
        _ANY,
        _differs_in_types_of_nothing,
    ),
    Deviation(
        "Caffe2 reads an operand in place, of another element type than the result's, after its memory is replaced",
        _ANY,
        _is_retyped_in_place,
    ),
)  # fmt: skip


def deviation(drawn: Drawn, expected: Arrays, actual: Arrays) -> str:
    """Return the reason why the results of a case may differ; empty if none applies."""
    types = {op.type for op in all_operators(NetView(drawn.net))}
    known = (each for each in DEVIATIONS if not each.types or types & each.types)
    return next((each.reason for each in known if each.applies(drawn, expected, actual)), "")

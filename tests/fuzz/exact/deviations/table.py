"""All deviations, and which of them applies to a case."""

from __future__ import annotations

from typing import Final

from conformance.corpus import is_gradient

from caffe2_bridge.control import all_operators
from caffe2_bridge.netdef.views import NetView
from fuzz.exact.deviations.causes import (
    Arrays,
    both_leave_the_range,
    differs_in_types_of_nothing,
    is_not_finite,
    is_retyped_in_place,
    leaves_the_range,
    sums_leave_the_range,
)
from fuzz.exact.deviations.deviation import Deviation
from fuzz.exact.deviations.forward import ELEMENTWISE
from fuzz.exact.deviations.of_aten import ATEN
from fuzz.exact.deviations.of_floats import FLOATS
from fuzz.exact.deviations.of_images import IMAGES
from fuzz.exact.deviations.of_nothing import NOTHING
from fuzz.exact.deviations.of_operands import OPERANDS
from fuzz.exact.drawing.drawn import Drawn

_OPTIMIZERS: Final = frozenset(
    {"Lars", "Wngrad", "SparseWngrad", "Adadelta", "SparseAdadelta", "Ftrl", "SparseFtrl", "GFtrl", "RmsProp", "Storm",
     "SparseStorm", "YellowFin", "MomentumSGD", "MomentumSGDUpdate", "SparseMomentumSGDUpdate", "WeightScale",
     "WeightedSum", "ScatterWeightedSum", "ReduceFrontWeightedSum", "LambdaRankNdcg"}
)  # fmt: skip
# Gradients that compute the same of elements that are not finite, too.
_EXACT: Final = frozenset(
    f"{kind}Gradient"
    for kind in (
        *ELEMENTWISE, "Max", "Min", "ReduceMax", "ReduceMin", "ReduceFrontMax", "ReduceBackMax", "RowwiseMax",
        "ColwiseMax", "LpNorm", "Add", "Sub", "Mul", "Slice", "Tile", "Copy",
    )
)  # fmt: skip
DEVIATIONS: Final = (*ATEN, *FLOATS, *IMAGES, *NOTHING, *OPERANDS)
# Deviations of operators of any type.
LEAVES_THE_RANGE: Final = (
    "finite operands whose sums or products leave the range of the type: where they do depends on the order"
)
ABSORBS: Final = "large operands that cancel, or beside small ones that are lost: what is left depends on roundings"


def _is_training(drawn: Drawn) -> bool:
    """Whether operators compute gradients other than elementwise ones, or update or add up weights."""
    return any(
        (is_gradient(op.type) and op.type not in _EXACT)
        or op.type in _OPTIMIZERS
        or "Adagrad" in op.type
        or "Adam" in op.type
        for op in all_operators(NetView(drawn.net))
    )


GENERAL: Final[tuple[Deviation, ...]] = (
    Deviation(
        "the element type of no elements: Caffe2's kernels do not look at it, and return their own",
        frozenset(),
        differs_in_types_of_nothing,
    ),
    Deviation(
        "an operand in place of another element type than the result's: Caffe2 reads it after its memory is replaced",
        frozenset(),
        is_retyped_in_place,
    ),
    Deviation(
        LEAVES_THE_RANGE,
        frozenset(),
        sums_leave_the_range,
    ),
    Deviation(
        "a NaN or an infinity in an optimizer, a gradient or a weighted sum: whether it meets a 0, or is compared, "
        "depends on the form",
        frozenset(),
        lambda drawn, expected, actual: (
            _is_training(drawn)
            and (is_not_finite(drawn, expected, actual) or both_leave_the_range(expected, actual))
            and leaves_the_range(drawn, expected, actual)
        ),
    ),
)


def deviation(drawn: Drawn, expected: Arrays, actual: Arrays) -> str:
    """The reason why the results of a case may differ, or why it may fail without any; empty if none applies."""
    types = {op.type for op in all_operators(NetView(drawn.net))}
    known = [each for each in DEVIATIONS if types & each.types and (each.may_fail or expected)]
    candidates = (*known, *(GENERAL if expected else ()))
    return next((each.reason for each in candidates if each.applies(drawn, expected, actual)), "")

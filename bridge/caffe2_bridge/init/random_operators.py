"""Operators that draw random numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from caffe2_bridge.control import inner_operators
from caffe2_bridge.init.fills import RANDOM
from caffe2_bridge.netdef.views import Args, OpView

_ATEN: Final = frozenset({
    "bernoulli", "multinomial", "normal", "poisson", "rand", "rand_like", "randint", "randint_like", "randn",
    "randn_like", "randperm", "rrelu",
})  # fmt: skip
# Caffe2 operators, other than fills, that draw random numbers for some arguments only.
_OPERATORS: Final[Mapping[str, Callable[[Args], bool]]] = {
    "ATen": lambda args: args.text("operator", default="") in _ATEN,
    "Dropout": lambda args: not args.flag("is_test", default=False),
    "FloatToFusedRandRowwiseQuantized": lambda args: args.flag("random", default=True),
    "PackedInt8BGRANHWCToNCHWCStylizerPreprocess": lambda args: args.number("noise_std", default=10.0) != 0,
    "SparseDropoutWithReplacement": lambda _args: True,
    "WeightedMultiSampling": lambda _args: True,
    "WeightedSample": lambda _args: True,
}


def is_random(op: OpView) -> bool:
    """Whether an operator itself draws random numbers."""
    draws = _OPERATORS.get(op.type)
    return op.type in RANDOM or (draws is not None and draws(op.args))


def draws_numbers(op: OpView) -> bool:
    """Whether an operator draws random numbers, or one of the bodies that it runs."""
    return is_random(op) or any(map(is_random, inner_operators(op)))

"""Families of conversions: operator types with the functions that compute them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from caffe2_bridge import registry
from caffe2_torch.evaluation.op import Op

# Returns one value for one output, or a tuple; None for an output that has no value.
Evaluate: TypeAlias = Callable[[Op], Any]


class Family(registry.Family[Evaluate]):
    """A named set of functions, one file each."""

    def converts(self, *op_types: str) -> Callable[[Evaluate], Evaluate]:
        """Register the function that computes operators of these types."""

        def register(function: Evaluate) -> Evaluate:
            self.add(function, *op_types)
            return function

        return register

"""Families of converters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.op import Op, Outputs

Converter = Callable[[Op], Outputs]
Expectation = Callable[[OpView, int], TensorInfo]


@dataclass
class Family:
    """A named set of converters, one file each.

    ``expectations`` say what an operator's use of a blob tells about a blob that nothing else describes.
    """

    name: str
    converters: dict[str, Converter] = field(default_factory=dict)
    expectations: dict[str, Expectation] = field(default_factory=dict)

    def converts(
        self, *types: str, expects: Expectation | Mapping[int, TensorInfo] | None = None
    ) -> Callable[[Converter], Converter]:
        """Register a converter for operator types.

        ``expects`` describes operands by position, or by a function of the operator and the position.
        """

        def register(function: Converter) -> Converter:
            for op_type in types:
                if op_type in self.converters:
                    raise ValueError(f"family {self.name!r} has two converters for {op_type}")
                self.converters[op_type] = function
                if expects is not None:
                    self.expectations[op_type] = expects if callable(expects) else _by_position(expects)
            return function

        return register


def _by_position(expected: Mapping[int, TensorInfo]) -> Expectation:
    return lambda _, index: expected.get(index, TensorInfo())


def merge(families: tuple[Family, ...]) -> tuple[dict[str, Converter], dict[str, Expectation]]:
    """One table of all families; a type that two of them convert is an error."""
    converters: dict[str, Converter] = {}
    expectations: dict[str, Expectation] = {}
    for family in families:
        twice = converters.keys() & family.converters.keys()
        if twice:
            raise ValueError(f"family {family.name!r} converts {', '.join(sorted(twice))} a second time")
        converters |= family.converters
        expectations |= family.expectations
    return converters, expectations

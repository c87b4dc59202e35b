"""Families of converters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from caffe2_backend.lowering.op import Op, Outputs

Converter = Callable[[Op], Outputs]


@dataclass
class Family:
    """A named set of converters of ONNX operators, one file each."""

    name: str
    converters: dict[str, Converter] = field(default_factory=dict)

    def converts(self, *types: str) -> Callable[[Converter], Converter]:
        """Register a converter for operator types; of another domain than ONNX's own as ``domain::type``."""

        def register(function: Converter) -> Converter:
            for op_type in types:
                if op_type in self.converters:
                    raise ValueError(f"family {self.name!r} has two converters for {op_type}")
                self.converters[op_type] = function
            return function

        return register


def merge(families: tuple[Family, ...]) -> dict[str, Converter]:
    """One table of all families; a type that two of them convert is an error."""
    converters: dict[str, Converter] = {}
    for family in families:
        twice = converters.keys() & family.converters.keys()
        if twice:
            raise ValueError(f"family {family.name!r} converts {', '.join(sorted(twice))} a second time")
        converters |= family.converters
    return converters

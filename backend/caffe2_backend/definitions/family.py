"""Families of definitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import onnx_ir as ir

from caffe2_backend.definitions.definition import Definition

# From a node under definition to its output, or its outputs.
Defined = ir.Value | Sequence[ir.Value]
Define = Callable[[Definition], Defined]
MICROSOFT: Final = "com.microsoft"
ML: Final = "ai.onnx.ml"


class Family:
    """A set of definitions of one domain."""

    def __init__(self, domain: str) -> None:
        self.domain = domain
        self.definitions: dict[tuple[str, str], Define] = {}

    def defines(self, *op_types: str) -> Callable[[Define], Define]:
        """Register a definition of operator types."""

        def register(function: Define) -> Define:
            self.definitions |= {(self.domain, op_type): function for op_type in op_types}
            return function

        return register


def merged(families: Iterable[Family]) -> Mapping[tuple[str, str], Define]:
    """Return all definitions, by domain and operator type."""
    return {key: define for family in families for key, define in family.definitions.items()}

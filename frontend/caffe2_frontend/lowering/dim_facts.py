"""What converters know of symbolic dims: which are equal in every run of the net, and what they are usually called."""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx_ir as ir

from caffe2_frontend.interop.types import Dim


@dataclass
class DimFacts:
    """Facts that Caffe2 itself enforces, collected while operators are converted.

    Attributes:
        equal: pairs of equal dims.
        roles: the usual name of a symbolic dim: ``T`` for time, ``N`` for the batch.
    """

    equal: list[tuple[int | str, int | str]] = field(default_factory=list)
    roles: dict[str, str] = field(default_factory=dict)

    def equate(self, first: ir.SymbolicDim | Dim, second: ir.SymbolicDim | Dim) -> None:
        """Record that two dims are equal; an unknown one is ignored."""
        a, b = as_dim(first), as_dim(second)
        if a is not None and b is not None and a != b:
            self.equal.append((a, b))

    def equate_shapes(self, first: ir.Shape | None, second: ir.Shape | None) -> None:
        """Record that two shapes are equal; shapes of unknown or different rank are ignored."""
        if first is not None and second is not None and len(first) == len(second):
            for a, b in zip(first, second, strict=True):
                self.equate(a, b)

    def name(self, dim: ir.SymbolicDim | Dim, role: str) -> None:
        """Record the usual name of a dim, unless it is a number or unknown."""
        symbol = as_dim(dim)
        if isinstance(symbol, str):
            self.roles.setdefault(symbol, role)


def as_dim(dim: ir.SymbolicDim | Dim) -> Dim:
    """Return a dim of an ONNX shape as a number, a name, or None where it is unknown."""
    # An integer is tested first: whether it is a SymbolicDim, a protocol's class, takes ten times as long.
    return dim if dim is None or isinstance(dim, int | str) else dim.value

"""The layout of the values of a step net, beside their polynomials.

Polynomials do not know broadcasting: adding [N] to [N, D] must not be taken for adding [D] to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from caffe2_bridge.cells.algebra import Polynomial


class Layout(Enum):
    """The axes of a value, batch (N) and features (D), without leading dims of 1."""

    FULL = "N x D"
    FEATURES = "D"
    BATCH = "N"
    ROWS = "N x 1"
    SCALAR = "1"


@dataclass(frozen=True)
class Term:
    """A value of the body: its polynomial and its layout."""

    polynomial: Polynomial
    layout: Layout


# The layout of two operands after broadcasting. Pairs that are missing are not broadcast as a cell would.
_JOINED: Final[Mapping[frozenset[Layout], Layout]] = {
    frozenset({Layout.FULL}): Layout.FULL,
    frozenset({Layout.FULL, Layout.FEATURES}): Layout.FULL,
    frozenset({Layout.FULL, Layout.ROWS}): Layout.FULL,
    frozenset({Layout.FULL, Layout.SCALAR}): Layout.FULL,
    frozenset({Layout.FEATURES}): Layout.FEATURES,
    frozenset({Layout.FEATURES, Layout.ROWS}): Layout.FULL,
    frozenset({Layout.FEATURES, Layout.SCALAR}): Layout.FEATURES,
    frozenset({Layout.BATCH}): Layout.BATCH,
    frozenset({Layout.BATCH, Layout.SCALAR}): Layout.BATCH,
    frozenset({Layout.ROWS}): Layout.ROWS,
    frozenset({Layout.ROWS, Layout.SCALAR}): Layout.ROWS,
    frozenset({Layout.SCALAR}): Layout.SCALAR,
}


class UnreadableError(Exception):
    """An operator is not arithmetic of a recurrent cell."""


def join(*terms: Term) -> Layout:
    """Return the layout of operands after broadcasting. Raises UnreadableError where a cell does not broadcast them."""
    layout = terms[0].layout
    for term in terms[1:]:
        joined = _JOINED.get(frozenset({layout, term.layout}))
        if joined is None:
            raise UnreadableError
        layout = joined
    return layout

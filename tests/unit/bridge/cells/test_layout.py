"""Layouts after broadcasting: those that a cell would take for something else are refused."""

from __future__ import annotations

import pytest

from caffe2_bridge.cells.algebra import ZERO
from caffe2_bridge.cells.layout import Layout, Term, UnreadableError, join


def joined(*layouts: Layout) -> Layout:
    return join(*(Term(ZERO, layout) for layout in layouts))


@pytest.mark.parametrize("layout", Layout)
def test_equal_layouts_and_scalars_keep_a_layout(layout: Layout) -> None:
    assert joined(layout, layout, Layout.SCALAR) is layout
    assert joined(Layout.SCALAR, layout) is layout


def test_vectors_and_columns_are_repeated() -> None:
    assert joined(Layout.FULL, Layout.FEATURES, Layout.ROWS) is Layout.FULL
    assert joined(Layout.FEATURES, Layout.ROWS) is Layout.FULL


@pytest.mark.parametrize("other", [Layout.FULL, Layout.FEATURES, Layout.ROWS])
def test_a_vector_of_the_batch_is_no_vector_of_features(other: Layout) -> None:
    with pytest.raises(UnreadableError):
        joined(Layout.BATCH, other)

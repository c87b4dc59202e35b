"""Sizes on the command line."""

from __future__ import annotations

import click
import pytest

from caffe2_cli.byte_size import parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [("500MB", 500 * 10**6), ("4GiB", 4 << 30), ("1.5g", 1_500_000_000), ("4000", 4000), ("2 kb", 2000)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1", "4 bananas", "0"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(click.BadParameter, match="such as 500MB"):
        parse_size(text)

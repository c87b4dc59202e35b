"""Sizes on the command line."""

from __future__ import annotations

import re
from typing import Final

import click

_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)
_POWERS: Final = " kmgt"


def parse_size(text: str) -> int:
    """Parse a number of bytes: ``500MB``, ``4GB`` (powers of 1000), ``4GiB`` (powers of 1024), ``4000000000``.

    Raises click.BadParameter for any other text.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None or not float(match[1]):
        raise click.BadParameter(f"{text!r} must be a size, such as 500MB, 4GB or 4GiB")
    base = 1024 if match[3] else 1000
    return int(float(match[1]) * base ** _POWERS.index(match[2].lower() or " "))

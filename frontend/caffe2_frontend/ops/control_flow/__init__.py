"""Converters of control flow: branches, loops, and nets in workspaces of their own."""

from typing import Final

# The modules that define a family of converters; scripts/operators writes their index.
FAMILIES: Final = (
    "branch",
    "do",
    "loop",
)

"""Files that a batch skips."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from caffe2_cli.output.echo import say

if TYPE_CHECKING:
    from caffe2_fleet.models.discovery import Skipped

_LISTED: Final = 20
_REASONS: Final = 5


def print_skipped(files: Sequence[Skipped], elsewhere: str) -> None:
    """Print to stderr the first files that are no part of a model, and how many there are by reason.

    ``elsewhere`` says where all are.
    """
    files = without_parts(files)
    for file in files[:_LISTED]:
        say(f"skipped: {file.path}: {file.reason}", err=True)
    if len(files) > _LISTED:
        say(f"skipped: {len(files) - _LISTED} more files, {elsewhere}:", err=True)
        for reason, count in Counter(file.reason for file in files[_LISTED:]).most_common(_REASONS):
            say(f"  {count}: {reason}", err=True)


def without_parts(files: Sequence[Skipped]) -> list[Skipped]:
    """Return the files that are no part of a model."""
    return [file for file in files if not file.is_part]

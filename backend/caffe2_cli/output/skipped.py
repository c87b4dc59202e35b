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
    """Print the first skipped files to stderr, and how many there are by reason; ``elsewhere`` says where all are."""
    for file in files[:_LISTED]:
        say(f"skipped: {file.path}: {file.reason}", err=True)
    if len(files) > _LISTED:
        say(f"skipped: {len(files) - _LISTED} more files, {elsewhere}:", err=True)
        for reason, count in Counter(file.reason for file in files[_LISTED:]).most_common(_REASONS):
            say(f"  {count}: {reason}", err=True)

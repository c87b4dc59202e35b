"""The exit codes of all commands: the one table, which help and documentation show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

YES: Final = 0
NO: Final = 1
FAILED: Final = 2
INTERRUPTED: Final = 130  # as shells report a command that Ctrl-C ended

EXIT_CODES: Final[Mapping[int, str]] = {
    YES: "Yes: it is done, or what the command asks is so.",
    NO: "No: the model does not convert, results disagree, or the installation has a problem.",
    FAILED: "It could not be done: an option is wrong, a file is missing or damaged, or a run failed.",
    INTERRUPTED: "Ctrl-C ended it.",
}

"""What the options that all commands share say, for everything that prints."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource

_KEY: Final = "caffe2_cli.settings"


@dataclass
class Settings:
    """What is printed of a command, and where.

    Attributes:
        quiet: results, warnings and errors alone.
        verbose: also how long each stage took.
        schema: the version of the JSON object that stdout gets instead of text; 0 for text.
        piped: the file that stdout gets instead of text, while it is written.
    """

    quiet: bool = False
    verbose: bool = False
    schema: int = 0
    piped: Path | None = None


def settings() -> Settings:
    """Return the settings of the running command; the defaults outside of one."""
    context = click.get_current_context(silent=True)
    if context is None:
        return Settings()
    found: Settings = context.meta.setdefault(_KEY, Settings())
    return found


def is_given(option: str) -> bool:
    """Whether the user typed an option of the running command, by the name of its parameter."""
    return click.get_current_context().get_parameter_source(option) is ParameterSource.COMMANDLINE


def colored() -> bool | None:
    """Whether text is colored: None on terminals alone."""
    context = click.get_current_context(silent=True)
    return None if context is None else context.color

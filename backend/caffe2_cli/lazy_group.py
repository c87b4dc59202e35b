"""A group of commands that imports a command when it is used, so that ``--help`` loads none of them."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click

from caffe2_bridge.collector import CollectorPaused


@dataclass(frozen=True)
class CommandEntry:
    """Where a command is, and its line in the list of commands.

    Attributes:
        module: the module of the command, which has the name of the command's function.
        summary: the first sentence of the command's help.
    """

    module: str
    summary: str

    def load(self) -> click.Command:
        """Import the command."""
        with CollectorPaused():
            command = getattr(import_module(self.module), self.module.rpartition(".")[2])
        if not isinstance(command, click.Command):
            raise TypeError(f"{self.module} does not define a command of its name")
        return command


class LazyGroup(click.Group):
    """A group whose commands are imported by name. Its help is printed from the summaries."""

    def __init__(self, *args: Any, entries: Mapping[str, CommandEntry], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.entries = entries

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run as the program of this process."""
        atexit.register(gc.freeze)  # Python would search all modules for garbage once more: a seventh of a check
        return super().__call__(*args, **kwargs)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, sorted."""
        return sorted({*super().list_commands(ctx), *self.entries})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None for an unknown name."""
        if cmd_name in self.entries:
            return self.entries[cmd_name].load()
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        summaries = {name: click.Command(name, help=entry.summary) for name, entry in self.entries.items()}
        click.Group(self.name, commands={**self.commands, **summaries}).format_commands(ctx, formatter)

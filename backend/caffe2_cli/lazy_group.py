"""Groups of commands; one imports a command when it is used, so that ``--help`` loads none of them."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import import_module
from io import StringIO
from typing import Any

import click

from caffe2_bridge.collector import CollectorPaused
from caffe2_cli.exit_codes import INTERRUPTED, YES
from caffe2_cli.output.echo import echo, message


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


class Group(click.Group):
    """A group whose help has the whole first sentence of each command, whatever the width."""

    def summaries(self) -> Mapping[str, str]:
        """Return the first sentence of each command's help, by name."""
        return {name: command.get_short_help_str(limit=1000) for name, command in sorted(self.commands.items())}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(self.summaries().items()))


class LazyGroup(Group):
    """A group whose commands are imported by name. Its help is printed from the summaries."""

    def __init__(self, *args: Any, entries: Mapping[str, CommandEntry], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.entries = entries

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run as the program of this process."""
        atexit.register(gc.freeze)  # Python would search all modules for garbage once more: a seventh of a check
        return super().__call__(*args, **kwargs)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run, with errors of usage marked as other errors are, and the exit code of Ctrl-C that commands have."""
        try:
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.Abort:
            if not standalone_mode:
                raise
            sys.exit(INTERRUPTED)
        except click.ClickException as error:
            if not standalone_mode:
                raise
            _show(error)
            sys.exit(error.exit_code)
        if not standalone_mode:
            return code
        sys.exit(code if isinstance(code, int) else YES)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, sorted."""
        return sorted({*super().list_commands(ctx), *self.entries})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None for an unknown name."""
        if cmd_name in self.entries:
            return self.entries[cmd_name].load()
        return super().get_command(ctx, cmd_name)

    def summaries(self) -> Mapping[str, str]:
        """Return the first sentence of each command's help, by name, without importing it."""
        return {name: entry.summary for name, entry in sorted(self.entries.items())}


def _show(error: click.ClickException) -> None:
    """Print an error of usage as click does, with the mark of errors."""
    text = StringIO()
    error.show(text)
    usage, found, reason = text.getvalue().partition("Error: ")
    context = getattr(error, "ctx", None)
    with nullcontext() if context is None else context.scope(cleanup=False):
        if usage:
            echo(usage.rstrip("\n"), err=True)
        if found:
            message("error", reason.rstrip("\n"))

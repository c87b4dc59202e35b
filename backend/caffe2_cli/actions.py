"""A command whose first argument may be the name of another action."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from caffe2_cli.command import Command


class CommandWithActions(Command):
    """A command whose first argument may be the name of an action: ``batch SOURCE``, ``batch trends OLD NEW``.

    A file of an action's name can be given as ``./trends``.
    """

    def __init__(self, *args: Any, actions: Sequence[Command], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.actions = {action.name: action for action in actions}

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the arguments of the action that is named, or else those of this command."""
        action = self.actions.get(args[0]) if args else None
        if action is None:
            return super().make_context(info_name, args, parent, **extra)
        return action.make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that the context was made for."""
        return super().invoke(ctx) if ctx.command is self else ctx.command.invoke(ctx)

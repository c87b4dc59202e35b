"""The option ``--plugin``: a module of the user's own, which registers operators before the command begins."""

from __future__ import annotations

from typing import Final

import click

from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.plugins import import_plugin


def _load_plugins(context: click.Context, _: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    """Import the modules that an option names, but not while a shell completes a line, and return their names."""
    try:
        for name in () if context.resilient_parsing else names:
            import_plugin(name)
    except OptionError as error:
        raise click.BadParameter(str(error), param_hint="'--plugin'") from error
    return names


plugin: Final = click.option(
    "--plugin", "plugins", multiple=True, metavar="MODULE", expose_value=False, callback=_load_plugins,
    help="A Python module of yours that registers operators, by name or as a .py file; its code runs. Repeatable.",
)  # fmt: skip
plugins: Final = click.option(
    "--plugin", "plugins", multiple=True, metavar="MODULE", callback=_load_plugins,
    help="A Python module of yours that registers operators, by name or as a .py file; its code runs, in the processes "
    "of the models too. Repeatable.",
)  # fmt: skip

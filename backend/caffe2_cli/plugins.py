"""The option ``--plugin``: a module of the user's own, which registers operators before the command begins."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Final

import click


def load_plugin(name: str) -> None:
    """Import a module by its name, or a file that ends in ``.py``, which runs its code.

    Raises click.BadParameter where it does not exist, or fails.
    """
    try:
        if name.endswith(".py"):
            _import_file(Path(name))
        else:
            import_module(name)
    except Exception as error:
        raise click.BadParameter(f"{name}: {type(error).__name__}: {error}", param_hint="'--plugin'") from error


def _import_file(path: Path) -> None:
    """Import a file as a module of a name that no other has."""
    spec = spec_from_file_location(f"caffe2_bridge_plugin_{path.stem}", path)
    assert spec is not None and spec.loader is not None  # noqa: PT018 - of any name that ends in .py
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)


def _load_plugins(context: click.Context, _: click.Parameter, names: tuple[str, ...]) -> None:
    """Import the modules that an option names, but not while a shell completes a line."""
    for name in () if context.resilient_parsing else names:
        load_plugin(name)


plugin: Final = click.option(
    "--plugin", multiple=True, metavar="MODULE", expose_value=False, callback=_load_plugins,
    help="A Python module of yours that registers operators, by name or as a .py file; its code runs. Repeatable.",
)  # fmt: skip

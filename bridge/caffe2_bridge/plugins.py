"""Plugins: modules of the user's own, which register operators when they are imported."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

from caffe2_bridge.diagnostics import OptionError


def import_plugin(name: str) -> None:
    """Import a module by its name, or a file that ends in ``.py``, which runs its code.

    Raises OptionError where it does not exist, or fails.
    """
    try:
        if _is_file(name):
            _import_file(Path(name))
        else:
            import_module(name)
    except (Exception, SystemExit) as error:
        raise OptionError(f"{name}: {type(error).__name__}: {error}") from error


def absolute_plugin(name: str) -> str:
    """Return the name by which a process in another folder imports a plugin."""
    return str(Path(name).resolve()) if _is_file(name) else name


def plugin_source(name: str) -> bytes:
    """Return the contents of a plugin's file. Raises OptionError where there is none."""
    try:
        spec = None if _is_file(name) else find_spec(name)
        return Path(name if spec is None else str(spec.origin)).read_bytes()
    except (ImportError, OSError, ValueError) as error:
        raise OptionError(f"{name}: {type(error).__name__}: {error}") from error


def _is_file(name: str) -> bool:
    return name.endswith(".py")


def _import_file(path: Path) -> None:
    """Import a file as a module of a name that no other has."""
    spec = spec_from_file_location(f"caffe2_bridge_plugin_{path.stem}", path)
    assert spec is not None and spec.loader is not None  # noqa: PT018 - of any name that ends in .py
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)

"""Packages that import their public names when they are first used (PEP 562).

The stub of such a package, ``__init__.pyi``, imports the public names and lists them in ``__all__``. Type checkers and
editors read it, and so does :func:`lazy_exports`: each name is written once, and importing the package loads none of
the modules behind them.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from caffe2_bridge.collector import CollectorPaused

Exports = tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]


def lazy_exports(package: str, file: str) -> Exports:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package, from the imports of its stub.

    Submodules are attributes too, whether or not they were imported, and so is ``__version__``.

    Args:
        package: the package's ``__name__``.
        file: the package's ``__file__``; its stub is beside it.
    """
    stub = ast.parse(Path(file).with_suffix(".pyi").read_bytes())
    origins = {
        alias.name: statement.module
        for statement in stub.body
        if isinstance(statement, ast.ImportFrom) and statement.module is not None
        for alias in statement.names
    }

    def load(name: str) -> Any:
        with CollectorPaused():
            value = _version() if name == "__version__" else _import(package, name, origins.get(name, package))
        setattr(sys.modules[package], name, value)  # later accesses find it without a call
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *origins, "__version__"})

    return load, names, sorted(origins)


def _version() -> str:
    """Return the version of the distribution that all packages belong to."""
    from importlib.metadata import version

    return version("caffe2-bridge")


def _import(package: str, name: str, origin: str) -> Any:
    if origin != package:
        return getattr(import_module(origin), name)
    if name.startswith("__") or find_spec(f"{package}.{name}") is None:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return import_module(f"{package}.{name}")

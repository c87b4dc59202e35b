"""The modules of the import packages, by dotted name."""

from __future__ import annotations

import ast
from collections.abc import Collection
from functools import cache
from pathlib import Path

from support.paths import PACKAGES


def modules(packages: Collection[str] = tuple(PACKAGES)) -> dict[str, Path]:
    """Return the modules of import packages; a package itself is named without ``__init__``."""
    found = {}
    for base in map(PACKAGES.__getitem__, packages):
        for path in sorted(base.rglob("*.py")):
            parts = path.relative_to(base.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def parse_modules(packages: tuple[str, ...] = tuple(PACKAGES)) -> dict[str, ast.Module]:
    """Return the syntax trees of :func:`modules`, which callers leave as they are."""
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in modules(packages).items()}

"""Load SymPy when it is first used: onnx_ir imports it for arithmetic of symbolic dims, which few conversions need.

SymPy is four fifths of the time that onnx_ir takes to import. Its modules are loaded by :class:`LazyLoader`, on the
first access to an attribute; other importers of SymPy notice nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType
from typing import Final

# The second reads attributes of SymPy when it is imported.
_DEFERRED: Final = frozenset({"sympy", "onnx_ir._symbolic_shapes"})


class _Finder:
    """Find the deferred modules on the path, with a loader that waits."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the specification of a deferred module; None for all others."""
        if name not in _DEFERRED:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


def defer_sympy() -> None:
    """Have SymPy loaded on first use from now on, where nothing has imported it yet."""
    if _Finder not in sys.meta_path and "sympy" not in sys.modules:
        sys.meta_path.insert(0, _Finder)

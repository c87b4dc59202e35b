"""Define ``torch.ops._caffe2`` when a program imports torch, which is not imported for it."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

_TORCH = "torch"
_defined: list[Any] = []


def define_with_torch() -> None:
    """Define the operators now if torch is imported already, or else as soon as it is."""
    if _TORCH in sys.modules:
        _define()
    elif not any(isinstance(finder, _TorchFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _TorchFinder())


def _define() -> None:
    if not _defined:
        from caffe2_compat.torch_ops.operator_namespace import define_operators

        _defined.append(define_operators())


class _TorchFinder(importlib.abc.MetaPathFinder):
    """Finds torch once, as the other finders do."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find torch; None for other modules."""
        del path, target
        if fullname != _TORCH:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(_TORCH)
        if spec is not None and spec.loader is not None:
            spec.loader = _TorchLoader(spec.loader)
        return spec


class _TorchLoader(importlib.abc.Loader):
    """Loads torch by its own loader, and defines the operators."""

    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        """Return what else the loader can do."""
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """Create the module."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module, and define the operators."""
        self._loader.exec_module(module)
        _define()

"""Import ``caffe2`` and everything under it from a copy of Caffe2's Python files, rewritten in memory.

The copy is only read, and compiled code is cached elsewhere (:mod:`.compiled`). ``caffe2``, ``caffe2.python`` and
``caffe2.proto`` themselves, protobuf messages and the C++ extension are this project's modules.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

from caffe2_compat.hook import compat
from caffe2_compat.hook.compiled import cached_code
from caffe2_compat.hook.locate import Sources
from caffe2_compat.hook.rewrites import rewrite
from caffe2_compat.hook.syntax import rewrite_syntax

PACKAGE: Final = "caffe2"
# This project's packages, which may be imported from a source tree.
_OWN: Final = "caffe2_"
_PACKAGES: Final = frozenset({"site-packages", "dist-packages"})
Content = Callable[[], Mapping[str, Any]]


class Caffe2Finder(importlib.abc.MetaPathFinder):
    """Finds ``caffe2`` and the modules under it.

    Args:
        sources: the copy.
        virtual: modules that this project defines: their names, and functions that return their contents. Those of
            packages are None.
    """

    def __init__(self, sources: Sources, virtual: Mapping[str, Content | None]) -> None:
        self.sources = sources
        self._virtual = virtual

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find a module; None for those of other packages."""
        del path, target
        if fullname.partition(".")[0] != PACKAGE:
            return None
        relative = fullname.replace(".", "/")
        if fullname in self._virtual:
            content = self._virtual[fullname]
            loader = _VirtualLoader(content)
            return self._spec(fullname, loader, None, package=relative if content is None else None)
        for name, package in ((f"{relative}.py", None), (f"{relative}/__init__.py", relative)):
            if (source := self.sources.read(name)) is not None:
                origin = str(self.sources.root / name)
                return self._spec(fullname, SourceLoader(origin, source), origin, package=package)
        if self.sources.is_folder(relative):
            return self._spec(fullname, _VirtualLoader(None), None, package=relative)
        return None

    def _spec(
        self, name: str, loader: importlib.abc.Loader, origin: str | None, *, package: str | None
    ) -> importlib.machinery.ModuleSpec:
        spec = importlib.machinery.ModuleSpec(name, loader, origin=origin, is_package=package is not None)
        if package is not None:
            spec.submodule_search_locations = [str(self.sources.root / package)]
        spec.has_location = origin is not None
        return spec


class SourceLoader(importlib.abc.InspectLoader):
    """Loads one source file of the copy.

    Args:
        path: of the file.
        content: its content.
    """

    def __init__(self, path: str, content: bytes) -> None:
        self.path = path
        self._source = importlib.util.decode_source(content)

    def get_source(self, fullname: str) -> str:
        """Return the file as it is, for tracebacks; the rewrites do not move lines."""
        del fullname
        return self._source

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the rewritten file."""
        del fullname
        return cached_code(self._source, self.path, compile_source)

    def is_package(self, fullname: str) -> bool:
        """Whether the file is a package's."""
        del fullname
        return self.path.endswith("__init__.py")

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module."""
        vars(module)[compat.NAME] = compat
        exec(self.get_code(module.__name__), vars(module))  # noqa: S102 - this is what an import does


class ProgramFinder(importlib.abc.MetaPathFinder):
    """Finds modules of the program that runs: those outside of the standard library and of installed packages.

    They are as old as the program, and rewritten like it.
    """

    def __init__(self) -> None:
        paths = sysconfig.get_paths()
        self._installed = tuple(Path(paths[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib"))

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find a module in a source file of the program; None for all others."""
        if fullname.partition(".")[0].startswith(_OWN):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or type(spec.loader) is not importlib.machinery.SourceFileLoader or spec.origin is None:
            return None
        if self._is_installed(Path(spec.origin)):
            return None
        spec.loader = ProgramLoader(spec.loader.name, spec.origin)
        spec.cached = None
        return spec

    def _is_installed(self, path: Path) -> bool:
        return not _PACKAGES.isdisjoint(path.parts) or any(path.is_relative_to(folder) for folder in self._installed)


class ProgramLoader(importlib.machinery.SourceFileLoader):
    """Loads a module of the program; without the compiled code of the file as it is."""

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the rewritten file."""
        return cached_code(self.get_source(fullname) or "", self.path, compile_source)

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module."""
        vars(module)[compat.NAME] = compat
        super().exec_module(module)


class _VirtualLoader(importlib.abc.Loader):
    def __init__(self, content: Content | None) -> None:
        self._content = content

    def exec_module(self, module: ModuleType) -> None:
        if self._content is not None:
            vars(module).update(self._content())


def compile_source(source: str, path: str) -> CodeType:
    """Compile a rewritten source; it expects the module ``compat`` under its name among the globals."""
    tree = rewrite_syntax(ast.parse(rewrite(source), path))
    return compile(tree, path, "exec", dont_inherit=True)

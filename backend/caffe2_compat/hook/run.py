"""Run a program, or a module, with the hook installed."""

from __future__ import annotations

import builtins
import importlib.machinery
import importlib.util
import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from caffe2_compat.hook import compat
from caffe2_compat.hook.finder import PACKAGE, ProgramFinder, SourceLoader
from caffe2_compat.hook.tracebacks import print_error


def run_program(path: Path, arguments: Sequence[str]) -> None:
    """Run a Python file as ``__main__``; programs for Caffe2 are old, so the rewrites apply to them, too.

    They apply to the program's own modules as well, which are neither installed nor in the standard library.

    Raises OSError if it cannot be read. An exception of the program is printed, and ends it with SystemExit.
    """
    sys.path.insert(0, str(path.resolve().parent))
    _find_modules_of_programs()
    _run(SourceLoader(str(path), path.read_bytes()), arguments)


def run_module(name: str, arguments: Sequence[str]) -> None:
    """Run a module as ``__main__``, as ``python -m`` does.

    An exception of the module, and that it is not found, is printed, and ends it with SystemExit.
    """
    sys.path.insert(0, "")
    _find_modules_of_programs()
    spec = importlib.util.find_spec(name) if name.partition(".")[0] == PACKAGE else None
    if spec is not None and isinstance(spec.loader, SourceLoader):
        _run(spec.loader, arguments)
        return
    sys.argv = [name, *arguments]
    with _errors_printed():
        runpy.run_module(name, {compat.NAME: compat}, run_name="__main__", alter_sys=True)


def _find_modules_of_programs() -> None:
    """Look for modules of the program before all others of files; built-in and frozen ones stay first."""
    files = (
        sys.meta_path.index(importlib.machinery.PathFinder) if importlib.machinery.PathFinder in sys.meta_path else 0
    )
    sys.meta_path.insert(files, ProgramFinder())


def _run(loader: SourceLoader, arguments: Sequence[str]) -> None:
    sys.argv = [loader.path, *arguments]
    main = ModuleType("__main__")
    # Tracebacks find the source by the loader.
    main.__loader__ = loader
    vars(main).update({"__file__": loader.path, "__builtins__": builtins, compat.NAME: compat})
    sys.modules["__main__"] = main
    with _errors_printed():
        exec(loader.get_code("__main__"), vars(main))  # noqa: S102 - the user asks to run this program


@contextmanager
def _errors_printed() -> Iterator[None]:
    """End the program for an exception in the block, as Python does."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - the program ends
        print_error(error)
        raise SystemExit(1) from None

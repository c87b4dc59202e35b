"""Run a program, or a module, with the hook installed."""

from __future__ import annotations

import builtins
import importlib.machinery
import importlib.util
import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from caffe2_compat.hook import compat
from caffe2_compat.hook.finder import PACKAGE, ProgramFinder, SourceLoader


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

    Raises ImportError if it is not found. An exception of the module is printed, and ends it with SystemExit.
    """
    sys.path.insert(0, "")
    _find_modules_of_programs()
    spec = importlib.util.find_spec(name) if name.partition(".")[0] == PACKAGE else None
    if spec is not None and isinstance(spec.loader, SourceLoader):
        _run(spec.loader, arguments)
        return
    sys.argv = [name, *arguments]
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
    try:
        exec(loader.get_code("__main__"), vars(main))  # noqa: S102 - the user asks to run this program
    except Exception as error:  # noqa: BLE001 - the program ends, as in Python
        # As Python ends a program that raises, without the frames of this command.
        frames = error.__traceback__.tb_next if error.__traceback__ is not None else None
        traceback.print_exception(error.with_traceback(frames))
        raise SystemExit(1) from None

"""How an exception that ends a program is printed: with the frames of the program, not of what runs it."""

from __future__ import annotations

import re
import traceback
from types import TracebackType
from typing import Final

from caffe2_bridge.diagnostics import BridgeError

# Python leaves out the frames of its imports, but not those of loaders written in Python.
_IMPORTS: Final = (
    *("importlib._bootstrap", "importlib._bootstrap_external", "_frozen_importlib", "_frozen_importlib_external"),
    *("ast", "caffe2_compat.hook", "runpy"),
)
# The program can do nothing about where inside of this project an error of this project's was raised.
_OWN: Final = (*_IMPORTS, "caffe2_backend", "caffe2_bridge", "caffe2_compat", "caffe2_frontend")
_SYNTAX: Final = re.compile(
    r"^\s*(?:print|exec)\s+[^\s=(]|\bexcept\s+[\w.]+\s*,|\braise\s+[\w.]+\s*,|<>|`|\b0\d|\d[lL]\b"
)
_NAMES: Final = frozenset(
    {"basestring", "cmp", "execfile", "file", "long", "raw_input", "reduce", "unichr", "unicode", "xrange"}
)
_METHODS: Final = frozenset({"has_key", "iteritems", "iterkeys", "itervalues"})
_MODULES: Final = frozenset({"__builtin__", "ConfigParser", "Queue", "StringIO", "cPickle", "cStringIO", "urllib2"})
_NOTE: Final = (
    "If this is a program for Python 2, convert it first, for example by 2to3, which comes with Python up to 3.12."
)


def print_error(error: BaseException) -> None:
    """Print an exception that ended a program, and those that it followed from, to stderr.

    A note says what to do with a program for Python 2.
    """
    found: BaseException | None = error
    seen: set[int] = set()
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        found.__traceback__ = _of_program(found.__traceback__, _OWN if isinstance(found, BridgeError) else _IMPORTS)
        if _is_of_python_2(found):
            found.add_note(_NOTE)
        found = found.__cause__ or found.__context__
    traceback.print_exception(error)


def _of_program(frames: TracebackType | None, left_out: tuple[str, ...]) -> TracebackType | None:
    """Return a traceback without the frames of modules, and of those inside of these."""
    kept = []
    while frames is not None:
        name = frames.tb_frame.f_globals.get("__name__", "")
        if not any(name == module or name.startswith(f"{module}.") for module in left_out):
            kept.append(frames)
        frames = frames.tb_next
    result = None
    for item in reversed(kept):
        result = TracebackType(result, item.tb_frame, item.tb_lasti, item.tb_lineno)
    return result


def _is_of_python_2(error: BaseException) -> bool:
    """Whether Python 2 would not have raised an exception."""
    match error:
        case TabError():
            return True
        case SyntaxError():
            return _SYNTAX.search(error.text or "") is not None
        case ModuleNotFoundError():
            return error.name in _MODULES
        case NameError():
            return error.name in _NAMES
        case AttributeError():
            return isinstance(error.obj, dict) and error.name in _METHODS
    return False

"""Names and text of a net, made fit for Python source. Names come from files and are not trusted."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Hashable, Iterable
from typing import Final

import numpy as np

_PLAIN: Final = re.compile(r"[A-Za-z0-9_/.:@+-]+")


_TAKEN: Final = ("Path", "F", "NamedTuple", "Quantized")  # by what source imports and holds


class Identifiers:
    """Distinct Python identifiers for names of any characters."""

    def __init__(self, reserved: Iterable[str]) -> None:
        self._used = {*reserved, *keyword.kwlist, *dir(builtins)}
        self._found: dict[Hashable, str] = {}

    def of(self, key: Hashable, name: str | None = None) -> str:
        """Return the identifier of a key: ``name``, by default the key itself, with ``_`` for what is not allowed."""
        if key not in self._found:
            text = re.sub(r"\W", "_", str(key) if name is None else name, flags=re.ASCII) or "_"
            # Two underscores at the start would be mangled in a class.
            text = f"x{text}" if text[0].isdigit() else re.sub("^__+", "_", text)
            while text in self._used:
                text += "_"
            self._used.add(text)
            self._found[key] = text
        return self._found[key]


def plain(name: str) -> str:
    """Return the identifier that a name has if nothing but / and digits at its start stand in the way."""
    text = name.replace("/", "_")
    return f"x{text}" if text[:1].isdigit() else text


def class_name(name: str) -> str:
    """Return the name of a class for a net."""
    words = [word for word in re.split(r"[\W_]+", name, flags=re.ASCII) if word]
    text = "".join(word[0].upper() + word[1:] for word in words)
    return (
        text
        if text and not text[0].isdigit() and text not in ("Path", "F", "NamedTuple", "Quantized")
        else f"Net{text}"
    )


def quoted(name: str) -> str:
    """Return a name for a comment or docstring: on one line, and without what would end a docstring."""
    if _PLAIN.fullmatch(name):
        return name
    return ascii(name).replace("\\", "\\\\").replace('"', '\\"')


def literal(value: object) -> str:
    """Return the source of a string or number. A float has as few digits as float32 allows."""
    if isinstance(value, str):
        text = ascii(value)
        return f'"{text[1:-1]}"' if '"' not in text and "\\" not in text else text
    if isinstance(value, float):
        if not np.isfinite(value):
            return f'float("{value}")'
        short = float(f"{value:.6g}")
        return repr(short if np.isclose(short, value, rtol=2e-7, atol=0) else value)
    if isinstance(value, tuple):
        return f"({', '.join(map(literal, value))}{',' if len(value) == 1 else ''})"
    return repr(value)


def exact(value: float) -> str:
    """Return the source of a float that stands for that float32, with as few digits as possible."""
    return str(np.float32(value))

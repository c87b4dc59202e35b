"""Objects in one line, for a Python prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from caffe2_bridge.diagnostics.listing import listed
from caffe2_bridge.diagnostics.printable import printable

_NAMES: Final = 4
_LONGEST: Final = 60  # characters of a text


def short_repr(value: object, *head: str, **facts: Any) -> str:
    """Return an object as ``Model('relu', inputs=[x], outputs=[y], operators=1)``.

    Args:
        value: the object, whose class is named.
        head: texts without a name; empty ones are left out.
        facts: what is said of it, by name: a text, a number, or a sequence of names, the first of which are listed.
            None, and what is empty, is left out.
    """
    parts = [_text(text) for text in head if text]
    parts += [f"{name}={_text(fact)}" for name, fact in facts.items() if fact is not None and fact not in ("", ())]
    return f"{type(value).__name__}({', '.join(parts)})"


def _text(fact: Any) -> str:
    if isinstance(fact, str):
        return repr(_cut(fact))
    if isinstance(fact, Sequence):
        return f"[{listed([printable(_cut(name)) for name in fact], _NAMES, str)}]"
    return str(fact)


def _cut(text: str) -> str:
    """Return a text without its middle if it is long: the end of a path says more."""
    half = _LONGEST // 2
    return text if len(text) <= _LONGEST else f"{text[:half]}...{text[-half:]}"

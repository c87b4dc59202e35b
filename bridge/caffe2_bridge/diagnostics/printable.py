"""Text with characters from files, made safe to print."""

from __future__ import annotations


def printable(text: str, keep: str = "") -> str:
    r"""Return the text with all characters escaped (``\x1b``, ``\u202e``) that are not printable, nor in ``keep``."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return repr(char)[1:-1]

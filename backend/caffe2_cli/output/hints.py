"""Hints of diagnostics on the command line: what to type there, without the same in Python, which doubles them."""

from __future__ import annotations

import re
from typing import Final

_IN_PYTHON: Final = re.compile(r", or (?:init_net=\.\.\.|(?:inputs|outputs)=(?=[\[{]))")
_NONE: Final = " (None in Python)"
# A string, or a bracket; what a container of names, numbers and texts is made of.
_TOKEN: Final = re.compile(r"""(?P<text>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")|(?P<open>[\[({])|(?P<close>[\])}])""")


def typed_hint(hint: str) -> str:
    """Return a hint without the arguments of Python that it offers beside options of the command line."""
    kept, at = [], 0
    for found in _IN_PYTHON.finditer(hint):
        kept.append(hint[at : found.start()])
        at = found.end() if found[0].endswith("...") else _end_of_literal(hint, found.end())
    return "".join([*kept, hint[at:]]).replace(_NONE, "")


def _end_of_literal(text: str, start: int) -> int:
    """Return where the list or dict that begins at ``start`` ends."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        depth += bool(token["open"]) - bool(token["close"])
        if not depth:
            return token.end()
    return len(text)

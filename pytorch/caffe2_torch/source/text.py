"""Lines of source: statements that are too long are broken as formatters break them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

_WIDTH: Final = 100
_OPEN: Final = "([{"
_CLOSE: Final = ")]}"
_TOKENS: Final = re.compile(r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|#.*|[()\[\]{},]""")
_STEP: Final = "    "


def indented(lines: Iterable[str], depth: int = 1) -> list[str]:
    """Indent lines that are not empty."""
    return [_STEP * depth + line if line else line for line in lines]


def broken(lines: Iterable[str]) -> Iterator[str]:
    """Break each long line at the commas of its longest outermost brackets; without any, put its value in brackets."""
    for line in lines:
        yield from _break(line) if len(line) > _WIDTH else (line,)


def listed(names: Sequence[str]) -> str:
    """Return names with commas, in brackets if they are too long for one line."""
    text = ", ".join(names)
    return f"({text})" if len(text) > _WIDTH // 2 else text


def _break(line: str) -> list[str]:
    indent = line[: len(line) - len(line.lstrip())]
    pairs, commas = _structure(line)
    if line.lstrip().startswith("#"):
        return [line]
    if not pairs:
        target, equals, value = line.partition(" = ")
        return [f"{target} = (", indent + _STEP + value, f"{indent})"] if equals else [line]
    start, end = max(pairs, key=lambda pair: pair[1] - pair[0])
    cuts = [start, *(at for at in commas if start < at < end), end]
    parts = [line[a + 1 : b].strip() for a, b in pairwise(cuts)]
    parts = [part for part in parts if part]
    rows = [indent + _STEP]
    for part in parts:
        if len(rows[-1]) + len(part) + 1 > _WIDTH and rows[-1].strip():
            rows.append(indent + _STEP)
        rows[-1] += f"{part}, "
    rows = [row.rstrip() for row in rows]
    if len(rows) == 1 and not (len(parts) == 1 and commas):
        rows = [rows[0].removesuffix(",")]
    rest = indent + line[end:]
    return [line[: start + 1], *rows, *(_break(rest) if len(rest) > _WIDTH else [rest])]


def _structure(line: str) -> tuple[list[tuple[int, int]], list[int]]:
    """Return the outermost pairs of brackets outside of strings that are not empty, and the commas directly in them."""
    pairs, commas = [], []
    depth, start = 0, 0
    for token in _TOKENS.finditer(line):
        char, at = token[0], token.start()
        if char in _OPEN:
            start = at if depth == 0 else start
            depth += 1
        elif char in _CLOSE and depth:
            depth -= 1
            if depth == 0 and at > start + 1:
                pairs.append((start, at))
        elif char == "," and depth == 1:
            commas.append(at)
    return pairs, commas

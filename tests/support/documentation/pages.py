"""The code blocks of a page: what they run, and what they print.

Python blocks of a page share their names. An sh block holds commands, one a line. A console block holds commands,
``$ COMMAND``, each followed by what it prints. In these lines numbers stand for any number, runs of blanks for any
blanks, and ``...`` for any text; a block that begins with output shows what the last command of the page printed, too.
A comment before a block says what is special::

    <!-- not run: REASON -->
    <!-- needs: caffe2 -->
    <!-- needs: torch -->
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_BLOCK: Final = re.compile(r"(?:^<!-- (not run|needs): (.+?) -->\n)?^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_ANY: Final = re.compile(r"\.\.\.|\d[\d.,]*(?:e[+-]\d+)?|[▁▂▃▄▅▆▇█]+|\s+")


@dataclass(frozen=True)
class Block:
    """A code block.

    Attributes:
        page: the file.
        line: of the first line of its code, from 1 on.
        language: what follows the fence: ``python``, ``console``, ...
        code: its lines.
        excuse: why it is not run; empty if it is.
        needs: what it needs that not every machine has: ``caffe2``, ``torch``, or nothing.
    """

    page: Path
    line: int
    language: str
    code: str
    excuse: str
    needs: str

    def commands(self) -> Iterator[tuple[str, str]]:
        """Yield the commands of a block, each with what it prints; the first is empty if output begins the block."""
        command, printed = "", ""
        if self.language == "sh":
            yield from ((line, "") for line in self.code.splitlines())
            return
        for line in self.code.splitlines(keepends=True):
            if not line.startswith("$ "):
                printed += line
                continue
            if command or printed:
                yield command, printed
            command, printed = line.removeprefix("$ ").strip(), ""
        yield command, printed


def blocks_of(page: Path) -> list[Block]:
    """Return the blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        kind, reason, language, code = match.groups()
        line = text.count("\n", 0, match.start(4)) + 1
        excuse, needs = (reason if kind == name else "" for name in ("not run", "needs"))
        found.append(Block(page, line, language, code, excuse, needs))
    return found


def pattern_of(printed: str) -> re.Pattern[str]:
    """Return what the output of a command must contain."""
    parts, end = [], 0
    for match in _ANY.finditer(printed := printed.strip()):
        parts.append(re.escape(printed[end : match.start()]))
        parts.append({"...": ".*", " ": r"\s+"}.get(" " if match[0].isspace() else match[0], r"\S+?"))
        end = match.end()
    return re.compile("".join([*parts, re.escape(printed[end:])]), re.DOTALL)

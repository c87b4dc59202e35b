"""Write docs/diagnostics.md from ``caffe2_bridge.diagnostics.CODES``; with ``--check``, compare it instead."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from caffe2_bridge.diagnostics import CODES, DiagnosticCode

_ROOT: Final = Path(__file__).parents[1]
TARGET: Final = _ROOT / "docs" / "diagnostics.md"
_INTRODUCTION: Final = Path(__file__).with_suffix(".md")


def render() -> str:
    """Return the document: the introduction, an overview of all codes, and a section for each."""
    lines = [_INTRODUCTION.read_text(encoding="utf-8").rstrip(), "", "## Codes", "", *_overview()]
    for code in CODES.values():
        lines += ["", *_section(code)]
    return "\n".join(lines) + "\n"


def _overview() -> Iterator[str]:
    yield "| code | severity | meaning |"
    yield "| --- | --- | --- |"
    for code in CODES.values():
        yield f"| [{code.code}](#{code.code}) | {code.severity} | {code.summary} |"


def _section(code: DiagnosticCode) -> Iterator[str]:
    yield f"### {code.code}"
    yield ""
    yield f"{code.severity.capitalize()}. {code.summary}"
    yield ""
    yield f"*Cause:* {code.cause}"
    yield ""
    yield "```text"
    yield code.example
    yield "```"
    yield ""
    yield f"*Cure:* {code.cure}"


def main() -> int:
    """Write or check the document."""
    text = render()
    if "--check" in sys.argv[1:]:
        if TARGET.read_text(encoding="utf-8") == text:
            return 0
        print(f"{TARGET} is out of date: run scripts/diagnostics", file=sys.stderr)
        return 1
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

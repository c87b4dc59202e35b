"""Hooks of MkDocs: roles of docstrings become code."""

from __future__ import annotations

import re
from typing import Final

_ROLE: Final = re.compile(r"(?:(?<=>)|:)(?:func|class|meth|mod|attr|data|exc):(?=<)")


def on_page_content(html: str, **_: object) -> str:
    """Take the roles out of a page: ``:func:`name``` is shown as code."""
    return _ROLE.sub("", html)

"""What functions return, in the API reference: the annotation is the type, and the docstring says what it is.

griffe takes what precedes a colon in "Returns:" as the type, which in our docstrings is part of the sentence.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_SECTION = re.compile(r"^(Returns:\n[ ]+)", re.MULTILINE)


class AnnotatedReturns(griffe.Extension):
    """Write the annotation of a function before what its docstring says of the result."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Change the docstring of a function."""
        if func.docstring is not None and func.returns is not None:
            func.docstring.value = with_type(func.docstring.value, str(func.returns))


def with_type(docstring: str, annotation: str) -> str:
    """Return a docstring whose section of results begins with their type."""
    return _SECTION.sub(lambda match: f"{match[1]}{annotation}: ", docstring, count=1)

"""Descriptions of inputs as text: ``data=float32[N,3,224,224]``."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

Spec: TypeAlias = tuple[str | None, list[int | str | None] | None]

_INPUT: Final = re.compile(r"(?P<name>.+?)=(?P<dtype>\w+)?(?:\[(?P<dims>[^\]]*)\])?")


def parse_input(text: str) -> tuple[str, Spec] | None:
    """Parse ``NAME=DTYPE[DIMS]``: ``x=float32[T,N,256]``, ``x=[N,?]``, ``x=int64``; None if it has another form.

    The result is the name, and ``(dtype, shape)``; dims are sizes, names, or None for ``?`` and ``*``.
    """
    match = _INPUT.fullmatch(text)
    if match is None:
        return None
    dims = match["dims"]
    shape = None if dims is None else [_parse_dim(dim.strip()) for dim in dims.split(",") if dim.strip()]
    return match["name"], (match["dtype"], shape)


def _parse_dim(text: str) -> int | str | None:
    if text in ("?", "*"):
        return None
    return int(text) if text.isdigit() else text

"""Descriptions of inputs as text: ``data=float32[N,3,224,224]``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, TypeAlias

from caffe2_bridge.diagnostics import OptionError

Shape: TypeAlias = list[int | str | None] | None
Spec: TypeAlias = tuple[str | None, Shape] | tuple[str | None, Shape, tuple[float, int]]

_INPUT: Final = re.compile(
    r"(?P<name>.+?)=(?P<dtype>\w+)?(?:\[(?P<dims>[^\]]*)\])?"
    r"(?:@(?P<scale>\d*\.?\d+(?:[eE][+-]?\d+)?),(?P<zero_point>\d+))?"
)


_NEGATIVE: Final = re.compile(r"(?:^|,)\s*-\s*\d")


def parse_input(text: str) -> tuple[str, Spec] | None:
    """Parse ``NAME=DTYPE[DIMS]``: ``x=float32[T,N,256]``, ``x=[N,?]``, ``x=int64``; None if it has another form.

    The result is the name, and ``(dtype, shape)``; dims are sizes, names, or None for ``?`` and ``*``. The scale and
    zero point of an Int8 tensor follow ``@``, as in ``x=uint8[N,3]@0.05,128``; they are the third item of the result.
    """
    match = _INPUT.fullmatch(text)
    if match is None or _NEGATIVE.search(match["dims"] or ""):
        return None
    dims = match["dims"]
    shape = None if dims is None else [_parse_dim(dim.strip()) for dim in dims.split(",") if dim.strip()]
    if match["scale"] is None:
        return match["name"], (match["dtype"], shape)
    return match["name"], (match["dtype"], shape, (float(match["scale"]), int(match["zero_point"])))


def parse_inputs(texts: Iterable[str]) -> dict[str, Spec]:
    """Parse descriptions of inputs, as :func:`parse_input` does one.

    Raises OptionError for one of another form, with a negative size, or of an input that is described already.
    """
    described: dict[str, Spec] = {}
    for text in texts:
        parsed = parse_input(text)
        if parsed is None:
            raise OptionError(f"{text!r}: expected NAME=DTYPE[DIM,...], such as data=float32[N,3,224,224]")
        name, spec = parsed
        if name in described:
            raise OptionError(f"{text!r}: input {name!r} is described twice")
        described[name] = spec
    return described


def _parse_dim(text: str) -> int | str | None:
    if text in ("?", "*"):
        return None
    return int(text) if text.isdigit() else text

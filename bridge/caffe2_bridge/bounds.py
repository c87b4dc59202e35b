"""Bounds on what a small input may ask for, all of them: docs/limits.md has their table.

Those of :class:`Limits` can be raised: with :func:`limits` in a program, with ``caffe2-bridge --limit NAME=NUMBER`` on
the command line, and with the environment variable ``CAFFE2_BRIDGE_LIMITS=NAME=NUMBER,...`` for processes. The
constants are bounds of formats and libraries.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Final

from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.environment import environment_variable

VARIABLE: Final = "CAFFE2_BRIDGE_LIMITS"

# Dims of a tensor: NumPy 1's limit.
MAX_RANK: Final = 32
# Elements of a tensor, which may be a fill that stays symbolic: what no machine addresses.
MAX_FILL_ELEMENTS: Final = 1 << 47
# The deepest nesting of bodies in an ONNX model: protobuf's parsers, ONNX's and onnxruntime's among them, accept
# messages 100 deep, and a body is three.
MAX_BODIES: Final = 30
# The longest chain of function calls in an ONNX model: readers follow them recursively.
MAX_CALLS: Final = 64
# How many times as many nodes, or operators, a large model may have after its functions, or its plan, are expanded.
MAX_FUNCTION_GROWTH: Final = 20
# Elements of a vector whose contents shape inference follows, in 10 MB for each operator that computes with it.
MAX_FOLLOWED_ELEMENTS: Final = 1 << 16
# Elements of the result of an operator on constants that is computed while converting, if it is larger than both.
MAX_FOLDED: Final = 1 << 20
# Nodes that a converter emits one by one because an argument of the operator asks for so many.
MAX_UNROLLED: Final = 1 << 14
# How many times its compressed bytes what is unpacked may have, if it is large.
MAX_UNPACKED_RATIO: Final = 20
# Opcodes of a pickle: a checkpoint has some 30 for each array.
MAX_PICKLE_OPCODES: Final = 1 << 21

_SUFFIXES: Final = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def _bound(default: int, summary: str) -> int:
    made: int = field(default=default, metadata={"summary": summary})
    return made


@dataclass(frozen=True)
class Limits:
    """Bounds that can be raised.

    Attributes:
        constant_bytes: of a tensor that a conversion computes and stores, and of a synthesized input.
        function_nodes: nodes to which the functions of an ONNX model expand, beyond 20 times what was written.
        plan_operators: operators to which the steps of a plan expand, beyond 20 times what was written.
        text_bytes: of a net in protobuf's text format, whose parser takes a second for each 2 or 3 MB.
        iterations: of a loop that is run step by step.
        unpacked_bytes: of a compressed member, .npz file or checkpoint, beyond 20 times the compressed bytes.
    """

    constant_bytes: int = _bound(1 << 30, "bytes of a tensor that a conversion computes, or of a synthesized input")
    function_nodes: int = _bound(20_000, "nodes to which functions expand, beyond 20 times as many as were written")
    plan_operators: int = _bound(100_000, "operators to which a plan expands, beyond 20 times as many as were written")
    text_bytes: int = _bound(1 << 30, "bytes of a net in protobuf's text format")
    iterations: int = _bound(1_000_000, "iterations of a loop that is run step by step")
    unpacked_bytes: int = _bound(1 << 30, "bytes that a compressed file unpacks to, beyond 20 times as many as it has")

    def __post_init__(self) -> None:
        for bound in fields(self):
            value = getattr(self, bound.name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise OptionError(f"limit {bound.name} must be an integer of at least 0, not {value!r}")


NAMES: Final = tuple(bound.name for bound in fields(Limits))
_CURRENT: ContextVar[Limits | None] = ContextVar("limits", default=None)


def is_possible_shape(dims: Sequence[int]) -> bool:
    """Whether a tensor may have these dims; NumPy counts a dim of 0 as 1 when it asks whether an array is too big."""
    return (
        len(dims) <= MAX_RANK
        and min(dims, default=0) >= 0
        and math.prod(dim for dim in dims if dim) <= MAX_FILL_ELEMENTS
    )


def current_limits() -> Limits:
    """Return the limits that hold now. Raises OptionError if those of the environment cannot be read."""
    return _CURRENT.get() or _of_environment(os.environ.get(VARIABLE, ""))


@contextmanager
def limits(**bounds: int) -> Iterator[Limits]:
    """Raise, or lower, bounds in a block.

    ``with limits(constant_bytes=8 << 30): to_netdef(path)``

    Args:
        bounds: limits by the names of :class:`Limits`; the others stay.

    Raises:
        OptionError: a name is not that of a limit, or a value is not an integer of at least 0.
    """
    _require_names(bounds)
    token = _CURRENT.set(replace(current_limits(), **bounds))
    try:
        yield current_limits()
    finally:
        _CURRENT.reset(token)


@contextmanager
def limits_of_processes(text: str) -> Iterator[None]:
    """Set limits, as :func:`parse_limits` reads them, of this process and of those that it starts meanwhile."""
    parse_limits(text)
    with environment_variable(VARIABLE, ",".join(filter(None, (os.environ.get(VARIABLE), text)))):
        yield


def parse_limits(text: str) -> dict[str, int]:
    """Parse ``NAME=NUMBER,...``; a number may end in k, m, g or t, powers of 1024. Raises OptionError."""
    found = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, number = part.partition("=")
        digits = number.strip().lower()
        factor = _SUFFIXES.get(digits[-1:], 1)
        digits = digits[:-1] if factor > 1 else digits
        if not (digits.isascii() and digits.isdigit()) or len(digits) > 30:
            raise OptionError(f"limit {part!r} must be NAME=NUMBER, such as constant_bytes=4g")
        found[name.strip()] = int(digits) * factor
    _require_names(found)
    return found


def hint_of(name: str, wanted: int) -> str:
    """Return what to type to allow as much as ``wanted``."""
    return f"raise the limit: --limit {name}={wanted}, or with caffe2_bridge.limits({name}={wanted})"


def unpacked_allowance(compressed: int) -> int:
    """Return how many bytes so many compressed ones may unpack to."""
    return current_limits().unpacked_bytes + MAX_UNPACKED_RATIO * compressed


def refusal_to_unpack(size: int, compressed: int) -> str:
    """Return why so many compressed bytes may not be unpacked to that many; empty if they may."""
    allowed = unpacked_allowance(compressed)
    if size <= allowed:
        return ""
    hint = hint_of("unpacked_bytes", size - MAX_UNPACKED_RATIO * compressed)
    return f"{compressed:,} compressed bytes claim to be {size:,}, and {allowed:,} are allowed ({hint})"


def table() -> list[tuple[str, int, str]]:
    """Return the name, the default and the meaning of each limit that can be raised."""
    return [(bound.name, getattr(Limits(), bound.name), bound.metadata["summary"]) for bound in fields(Limits)]


def _require_names(bounds: dict[str, int]) -> None:
    for name in bounds:
        if name not in NAMES:
            raise OptionError(f"{name!r} is not a limit; the limits are {', '.join(NAMES)}")


@lru_cache(maxsize=8)
def _of_environment(text: str) -> Limits:
    return Limits(**parse_limits(text))

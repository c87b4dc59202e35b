"""Strings: predicates, prefixes and suffixes, and joining."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.operand_checks import require_dtype
from caffe2_frontend.emit.shapes import cast, size, size_vector, unsqueeze
from caffe2_frontend.emit.subgraphs import loop
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("strings")

# The ASCII characters, and the empty string for a position beyond the string.
_CHARACTERS: Final = (*map(chr, range(128)), "")
# RE2 refuses higher repetition counts in a pattern.
_MAX_LENGTH: Final = 1000

_STRING: Final = TensorInfo(ir.DataType.STRING)
# Types that ONNX's Cast writes as Caffe2 does, unlike floats and bytes.
_JOINED: Final = (
    ir.DataType.STRING, ir.DataType.INT16, ir.DataType.UINT16, ir.DataType.INT32, ir.DataType.INT64, ir.DataType.BOOL,
)  # fmt: skip


def _matches(op: Op, pattern: str) -> Value:
    """Return which elements of the first operand match a pattern as a whole; a dot is any character."""
    return op.emit("RegexFullMatch", op.input(0), pattern=f"(?s){pattern}")


@family.converts("StringStartsWith", expects={0: _STRING})
def starts_with(op: Op) -> Value:
    """StringStartsWith(X; prefix="") -> Y."""
    return _matches(op, f"{_literal(op.args.text('prefix', default=''))}.*")


@family.converts("StringEndsWith", expects={0: _STRING})
def ends_with(op: Op) -> Value:
    """StringEndsWith(X; suffix="") -> Y."""
    return _matches(op, f".*{_literal(op.args.text('suffix', default=''))}")


def _literal(text: str) -> str:
    """Return a pattern, in RE2's syntax, that matches the text literally."""
    return "".join(rf"\x{{{ord(c):x}}}" if c.isspace() or not c.isprintable() else re.escape(c) for c in text)


@family.converts("StringEquals", expects={0: _STRING})
def equals(op: Op) -> Value:
    """StringEquals(X; text="") -> Y."""
    return op.emit("Equal", op.input(0), op.const(op.args.text("text", default=""), object))


@family.converts("StringPrefix", "StringSuffix", expects={0: _STRING})
def part(op: Op) -> Value:
    """StringPrefix | StringSuffix(X; length=3) -> Y: the first or last bytes of each string.

    ONNX has no substring operator. RegexFullMatch determines each character instead: seven patterns yield the bits of
    its ASCII code, which is an index into a table of the ASCII characters. Caffe2 may cut between the bytes of other
    characters, which leaves invalid text; for a string with such characters the index is out of range, and the model
    stops with an error.
    """
    length = op.args.integer("length", default=3)
    if not 0 <= length <= _MAX_LENGTH:
        op.unsupported(f"length must be between 0 and {_MAX_LENGTH}, not {length}")
    positions = range(length) if op.type == "StringPrefix" else reversed(range(length))
    found = op.emit("Expand", op.const("", object), op.emit("Shape", op.input(0)), shape=op.shape(op.input(0)))
    foreign = _matches(op, rf".*[^{_ascii(range(128))}].*")
    for position in positions:
        found = op.emit("StringConcat", found, _character(op, position, foreign))
    return found


def _character(op: Op, position: int, foreign: Value) -> Value:
    """Return the character at a position from the start or end; an empty string beyond the other end."""
    rank = op.rank(op.input(0))
    skipped = f".{{{position}}}", ".*"
    before, after = skipped if op.type == "StringPrefix" else skipped[::-1]
    bits = [_matches(op, f"{before}[{_ascii(c for c in range(128) if c >> bit & 1)}]{after}") for bit in range(7)]
    traits = [*bits, _matches(op, f".{{0,{position}}}"), foreign]
    stacked = op.emit("Concat", *(unsqueeze(op, trait, [rank]) for trait in traits), axis=rank)
    # The bits add up to the ASCII code. A string that is too short selects the empty string, the last of the
    # table; a string with other characters exceeds the table.
    weights = op.const([*(1 << bit for bit in range(7)), len(_CHARACTERS) - 1, len(_CHARACTERS)], np.int64)
    weighted = op.emit("Mul", cast(op, stacked, ir.DataType.INT64), weights)
    index = op.emit("ReduceSum", weighted, op.const([rank], np.int64), keepdims=0)
    return op.emit("Gather", op.const(_CHARACTERS, object), index)


def _ascii(codes: Iterable[int]) -> str:
    """Return the members of a pattern's character class."""
    return "".join(rf"\x{{{code:x}}}" for code in codes)


@family.converts("StringJoin", expects={0: _STRING})
def join(op: Op) -> Value:
    """StringJoin(X; delimiter=",", axis=0) -> Y.

    The elements of each row in one string, each followed by the delimiter; with axis=1 those of each column.
    """
    x = op.input(0)
    delimiter = op.const(op.args.text("delimiter", default=","), object)
    axis, rank = op.args.integer("axis", default=0), op.rank(x)
    if axis not in (0, 1) or rank not in (1, 2) or axis >= rank:
        op.unsupported(
            f"X must have rank 1 with axis 0, or rank 2 with axis 0 or 1, not rank {rank} with axis {axis}",
            code="invalid-argument",
        )
    require_dtype(op, x, _JOINED, "the operand")
    if op.dtype(x) == ir.DataType.BOOL:
        x = cast(op, x, ir.DataType.INT32)
    x = cast(op, x, ir.DataType.STRING)
    if rank == 1:
        return op.emit("StringConcat", x, delimiter)
    # The Loop below appends the elements of all strings at once, along the first axis.
    parts = x if axis else op.emit("Transpose", x, perm=[1, 0])
    empty = op.emit("Expand", op.const([""], object), size_vector(op, parts, 1), shape=[op.shape(parts)[1]])

    def append(inside: Op, states: list[Value], iteration: list[Value]) -> tuple[list[Value], list[Value]]:
        index = inside.emit("Reshape", iteration[0], inside.const([1], np.int64))
        part = inside.emit("StringConcat", inside.emit("GatherND", parts, index), delimiter)
        return [inside.emit("StringConcat", states[0], part)], []

    return loop(op, size(op, parts, 0), None, [empty], append)[0][0]

"""Predicates on strings, parts of them, and joining them."""

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

# The ASCII characters, and what stands for none.
_CHARACTERS: Final = (*map(chr, range(128)), "")
# What a pattern may repeat.
_LONGEST: Final = 1000

_STRING: Final = TensorInfo(ir.DataType.STRING)
# Written as Caffe2 writes them; floats and bytes are not.
_JOINED: Final = (
    ir.DataType.STRING, ir.DataType.INT16, ir.DataType.UINT16, ir.DataType.INT32, ir.DataType.INT64, ir.DataType.BOOL,
)  # fmt: skip


def _matches(op: Op, pattern: str) -> Value:
    """Whether elements match as a whole; a dot is any character."""
    return op.emit("RegexFullMatch", op.input(0), pattern=f"(?s){pattern}")


@family.converts("StringStartsWith", expects={0: _STRING})
def starts_with(op: Op) -> Value:
    return _matches(op, f"{_literal(op.args.text('prefix', default=''))}.*")


@family.converts("StringEndsWith", expects={0: _STRING})
def ends_with(op: Op) -> Value:
    return _matches(op, f".*{_literal(op.args.text('suffix', default=''))}")


def _literal(text: str) -> str:
    """A pattern for the text itself, in RE2's syntax."""
    return "".join(rf"\x{{{ord(c):x}}}" if c.isspace() or not c.isprintable() else re.escape(c) for c in text)


@family.converts("StringEquals", expects={0: _STRING})
def equals(op: Op) -> Value:
    return op.emit("Equal", op.input(0), op.const(op.args.text("text", default=""), object))


@family.converts("StringPrefix", "StringSuffix", expects={0: _STRING})
def part(op: Op) -> Value:
    """The first or last ``length`` (3) bytes of each string.

    ONNX cannot cut strings, but it matches patterns: they tell which character is at a place, bit by bit, and a table
    of the ASCII characters gives it. Caffe2 cuts between the bytes of other characters too, which leaves no text; a
    model that meets one ends with an error.
    """
    length = op.args.integer("length", default=3)
    if not 0 <= length <= _LONGEST:
        op.unsupported(f"length must be from 0 to {_LONGEST}, not {length}")
    places = range(length) if op.type == "StringPrefix" else reversed(range(length))
    found = op.emit("Expand", op.const("", object), op.emit("Shape", op.input(0)), shape=op.shape(op.input(0)))
    foreign = _matches(op, rf".*[^{_ascii(range(128))}].*")
    for place in places:
        found = op.emit("StringConcat", found, _character(op, place, foreign))
    return found


def _character(op: Op, place: int, foreign: Value) -> Value:
    """The character at a place from the start or end, an empty string where there is none."""
    rank = op.rank(op.input(0))
    around = f".{{{place}}}", ".*"
    before, behind = around if op.type == "StringPrefix" else around[::-1]
    bits = [_matches(op, f"{before}[{_ascii(c for c in range(128) if c >> bit & 1)}]{behind}") for bit in range(7)]
    traits = [*bits, _matches(op, f".{{0,{place}}}"), foreign]
    stacked = op.emit("Concat", *(unsqueeze(op, trait, [rank]) for trait in traits), axis=rank)
    # What is beyond the table ends the run.
    weights = op.const([*(1 << bit for bit in range(7)), len(_CHARACTERS) - 1, len(_CHARACTERS)], np.int64)
    weighted = op.emit("Mul", cast(op, stacked, ir.DataType.INT64), weights)
    code = op.emit("ReduceSum", weighted, op.const([rank], np.int64), keepdims=0)
    return op.emit("Gather", op.const(_CHARACTERS, object), code)


def _ascii(codes: Iterable[int]) -> str:
    """The characters of a pattern's class."""
    return "".join(rf"\x{{{code:x}}}" for code in codes)


@family.converts("StringJoin", expects={0: _STRING})
def join(op: Op) -> Value:
    """Each row's elements in one string, a delimiter behind each of them; with ``axis`` 1 each column's."""
    x = op.input(0)
    delimiter = op.const(op.args.text("delimiter", default=","), object)
    axis, rank = op.args.integer("axis", default=0), op.rank(x)
    if axis not in (0, 1) or rank not in (1, 2) or axis >= rank:
        op.unsupported(f"rank {rank} cannot be joined along axis {axis}", code="invalid-argument")
    require_dtype(op, x, _JOINED, "the operand")
    if op.dtype(x) == ir.DataType.BOOL:
        x = cast(op, x, ir.DataType.INT32)
    x = cast(op, x, ir.DataType.STRING)
    if rank == 1:
        return op.emit("StringConcat", x, delimiter)
    # The elements of a string lie along the first axis.
    parts = x if axis else op.emit("Transpose", x, perm=[1, 0])
    empty = op.emit("Expand", op.const([""], object), size_vector(op, parts, 1), shape=[op.shape(parts)[1]])

    def append(inside: Op, states: list[Value], number: list[Value]) -> tuple[list[Value], list[Value]]:
        place = inside.emit("Reshape", number[0], inside.const([1], np.int64))
        part = inside.emit("StringConcat", inside.emit("GatherND", parts, place), delimiter)
        return [inside.emit("StringConcat", states[0], part)], []

    return loop(op, size(op, parts, 0), None, [empty], append)[0][0]

"""Comparison of strings. Caffe2 compares strings with an argument; its string index numbers distinct strings."""

from __future__ import annotations

from functools import reduce
from typing import Final

from caffe2_backend.emit.selection import concat
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.types import BOOL, INT32

_MOST_TEXTS: Final = 256  # comparisons that are emitted one by one


def equal_strings(op: Op, a: Value, b: Value) -> Value:
    """Whether strings are equal, with broadcasting.

    One that is compared with a known string, or of rank n and size 1 along the last axis with a known list, by
    StringEquals; any others by their numbers in a string index, which is an object that ONNX has no equivalent of.
    """
    for value, other in ((a, b), (b, a)):
        texts = op.known(other)
        if texts is None or texts.size > _MOST_TEXTS or op.rank(value) < texts.ndim:
            continue
        if texts.size == 1:
            return equals_text(op, value, _text(op, texts.reshape(-1)[0]))
        if texts.ndim == 1 and op.static_dim(value, op.rank(value) - 1) == 1 and texts.size:
            return concat(op, [equals_text(op, value, _text(op, text)) for text in texts], op.rank(value) - 1)
    index = op.fresh("index")
    op.append("StringIndexCreate", [], [index], {})
    return _ids(op, index, a).equals(_ids(op, index, b))


def equals_text(op: Op, value: Value, text: str) -> Value:
    """Whether strings are equal to one text."""
    made = op.emit("StringEquals", value, text=text)
    return op.blob(made.name, BOOL, value.shape)


def is_any_of(op: Op, value: Value, texts: tuple[str, ...]) -> Value:
    """Whether strings are equal to one of several texts."""
    return reduce(lambda a, b: a | b, (equals_text(op, value, text) for text in texts))


def _ids(op: Op, index: str, value: Value) -> Value:
    name = op.fresh("ids")
    op.append("IndexGet", [index, value.name], [name], {})
    return op.blob(name, INT32, value.shape)


def _text(op: Op, item: bytes | str) -> str:
    if isinstance(item, str):
        return item
    try:
        return item.decode()
    except UnicodeDecodeError:
        op.unsupported(f"strings are compared with {bytes(item)!r}, which is no UTF-8 text")

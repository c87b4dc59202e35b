"""Encoders of categories of ``ai.onnx.ml``: what they know is compared with all elements at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from caffe2_backend.definitions.definition import Definition
from caffe2_backend.definitions.family import ML, Family

family = Family(ML)

FLOAT, INT64, STRING = ir.DataType.FLOAT, ir.DataType.INT64, ir.DataType.STRING


@dataclass(frozen=True)
class _List:
    """Categories, or what they are encoded as.

    Attributes:
        values: the elements.
        dtype: their type.
    """

    values: Sequence[Any]
    dtype: ir.DataType


@family.defines("LabelEncoder")
def label_encoder(define: Definition) -> ir.Value:
    """``LabelEncoder(X; keys_*, values_*, default_*) -> Y``: the value of the key, or the default.

    Keys are integers or strings. Of version 1: ``classes_strings``, and their indices, in either direction.
    """
    if define.has("classes_strings"):
        texts = define.texts("classes_strings")
        return _mapped(define, texts, list(range(len(texts))))
    values = _encoded(define)
    return _looked_up(define, _keys(define), values)


@family.defines("CategoryMapper")
def category_mapper(define: Definition) -> ir.Value:
    """``CategoryMapper(X; cats_strings, cats_int64s, default_string, default_int64) -> Y``.

    Strings as integers, or integers as strings.
    """
    return _mapped(define, define.texts("cats_strings"), define.integers("cats_int64s"))


def _mapped(define: Definition, texts: list[str], integers: list[int]) -> ir.Value:
    """Return the integers of strings, or the strings of integers."""
    words = _List([*texts, define.text("default_string", "_Unused")], STRING)
    numbers = _List([*integers, define.integer("default_int64", -1)], INT64)
    if define.dtype(0) == STRING:
        return _looked_up(define, _List(texts, STRING), numbers)
    return _looked_up(define, _List(integers, INT64), words)


@family.defines("OneHotEncoder")
def one_hot_encoder(define: Definition) -> ir.Value:
    """``OneHotEncoder(X; cats_int64s | cats_strings, zeros=1) -> Y``: for each category 1 where it is the element's.

    Unknown elements are rows of zeros; without ``zeros`` no element may be unknown.
    """
    texts = define.texts("cats_strings")
    x = define.input(0) if texts else define.cast(define.input(0), INT64)
    return _matches(define, x, _List(texts, STRING) if texts else _List(define.integers("cats_int64s"), INT64))


def _matches(define: Definition, x: ir.Value, keys: _List) -> ir.Value:
    """Return 1 where an element is the key, else 0: float [*dims, keys]."""
    if not len(keys.values):
        define.undefined()
    known = define.texts_of(keys.values) if keys.dtype == STRING else define.const(keys.values, keys.dtype)
    return define.cast(define("Equal", define("Unsqueeze", x, define.ints(-1)), known), FLOAT)


def _looked_up(define: Definition, keys: _List, values: _List) -> ir.Value:
    """Return for each element the value of its key, or the last one, the default."""
    if len(keys.values) + 1 != len(values.values):
        define.undefined()
    same = _matches(define, define.input(0), keys)
    place = define("ArgMax", same, axis=-1, keepdims=0)
    is_known = define.cast(define("ReduceMax", same, define.ints(-1), keepdims=0), ir.DataType.BOOL)
    table = define.texts_of(values.values) if values.dtype == STRING else define.const(values.values, values.dtype)
    return define("Gather", table, define("Where", is_known, place, define.const(len(keys.values))))


def _keys(define: Definition) -> _List:
    """Return the keys of a label encoder."""
    if texts := define.texts("keys_strings"):
        return _List(texts, STRING)
    tensor = define.tensor("keys_tensor")
    if tensor is None:
        return _List(define.integers("keys_int64s"), INT64)
    if tensor.dtype == STRING:
        return _List(define.texts_in("keys_tensor", tensor), STRING)
    if tensor.dtype not in (ir.DataType.INT32, INT64, ir.DataType.INT16):
        define.undefined()
    return _List(tensor.numpy().reshape(-1).tolist(), tensor.dtype)


def _encoded(define: Definition) -> _List:
    """Return the values of a label encoder, with its default behind them."""
    if integers := define.integers("values_int64s"):
        return _List([*integers, define.integer("default_int64", -1)], INT64)
    if numbers := define.numbers("values_floats"):
        return _List([*numbers, define.number("default_float", -0.0)], FLOAT)
    if texts := define.texts("values_strings"):
        return _List([*texts, define.text("default_string", "_Unused")], STRING)
    tensor, default = define.tensor("values_tensor"), define.tensor("default_tensor")
    if tensor is None or default is None or tensor.dtype != default.dtype or default.size != 1:
        define.undefined()
    if tensor.dtype == STRING:
        return _List([*define.texts_in("values_tensor", tensor), *define.texts_in("default_tensor", default)], STRING)
    return _List([*tensor.numpy().reshape(-1).tolist(), default.numpy().item()], tensor.dtype)

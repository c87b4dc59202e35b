"""The conversions of operator types, whose modules are imported when a net needs them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Final, Generic, TypeVar

from caffe2_frontend.lowering.family import Conversion, Converter, Expectation, Family
from caffe2_frontend.ops.index import INDEX, REGISTERED
from caffe2_frontend.options import Int8

T = TypeVar("T")


class _Table(Mapping[str, T], Generic[T]):
    """One attribute of the conversions, by operator type, without those that have None there."""

    def __init__(self, select: Callable[[Conversion], T | None], preferred: Mapping[str, Conversion] = {}) -> None:
        """Replace conversions of the index by ``preferred`` ones."""
        self._select = select
        self._known = {op_type: select(conversion) for op_type, conversion in preferred.items()}

    def __getitem__(self, op_type: str) -> T:
        if op_type in REGISTERED:
            found = self._select(REGISTERED[op_type])
        else:
            if op_type not in self._known:
                self._known[op_type] = self._select(_conversion(op_type))
            found = self._known[op_type]
        if found is None:
            raise KeyError(op_type)
        return found

    def __iter__(self) -> Iterator[str]:
        return (op_type for op_type in (*INDEX, *REGISTERED) if op_type in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _family(module: str) -> Family:
    family: Family = import_module(f"caffe2_frontend.{module}").family
    return family


def _conversion(op_type: str) -> Conversion:
    return _family(INDEX[op_type].module).handlers[op_type]


_EXPECTATIONS: Final = _Table[Expectation](lambda conversion: conversion.expects)
_UNIFORM: Final = _Table[bool](lambda conversion: conversion.uniform or None)


@cache
def converters(int8: Int8 = "exact") -> Mapping[str, Converter]:
    """Return every covered operator type with its converter, for a form of Int8 operators."""
    preferred = _family("ops.quantized.int8_qdq").handlers if int8 == "qdq" else {}
    return _Table(lambda conversion: conversion.convert, preferred)


def expectations() -> Mapping[str, Expectation]:
    """Return what is known of a blob that an operator reads, by operator type."""
    return _EXPECTATIONS


def uniform_operators() -> Container[str]:
    """Return the operator types whose operators are converted alike where they differ in names alone."""
    return _UNIFORM

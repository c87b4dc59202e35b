"""A cached property without a lock."""

from __future__ import annotations

import functools
from typing import Any, TypeVar, cast, overload

T_co = TypeVar("T_co", covariant=True)


class cached_property(functools.cached_property[T_co]):  # noqa: N801 - named as what it replaces
    """``functools.cached_property`` as it is from Python 3.12 on: that of 3.11 takes a lock at each first access.

    Two threads may both compute the value; the last one stays.
    """

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> cached_property[T_co]: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T_co: ...
    def __get__(self, instance: object | None, owner: type[Any] | None = None) -> cached_property[T_co] | T_co:
        """Return the value, which the instance holds from now on."""
        if instance is None:
            return self
        value = instance.__dict__[cast("str", self.attrname)] = self.func(instance)
        return value

"""Options, checked against the annotations of the class that holds them."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping, Sequence
from functools import cache
from numbers import Integral, Real
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from caffe2_bridge.diagnostics.errors import OptionError

# What holds an option of each plain type. A bool is an integer to Python, and 1 is True to nobody who reads a call.
_HOLDERS: Final[Mapping[type, tuple[tuple[type, ...], str]]] = {
    bool: ((bool, np.bool_), "True or False"),
    int: ((Integral,), "an integer"),
    float: ((Real,), "a number"),
}


def check_options(options: Any) -> None:
    """Raise OptionError unless every option holds what its annotation says.

    Args:
        options: an instance of a dataclass. Of its fields are checked flags, numbers, words of a ``Literal``, and that
            sequences are not a text, whose letters they would be. None is allowed where the annotation has it.
    """
    for name, (kind, optional) in _kinds(options.__class__).items():
        value = getattr(options, name)
        if not (optional and value is None):
            _check(name, value, kind)


def require_sequence(name: str, value: Any) -> None:
    """Raise OptionError for a text where a sequence of names is expected: each of its letters would be a name."""
    if isinstance(value, str | bytes):
        raise OptionError(f"{name} must be a sequence, such as [{value!r}], not the text {value!r}")


def _check(name: str, value: Any, kind: Any) -> None:
    if get_origin(kind) is Literal:
        words = get_args(kind)
        if value not in words:
            raise OptionError(f"{name} must be one of {', '.join(words)}, not {value!r}")
    elif kind in _HOLDERS:
        held_by, what = _HOLDERS[kind]
        if not isinstance(value, held_by) or (kind is not bool and isinstance(value, bool)):
            raise OptionError(f"{name} must be {what}, not {value!r}")
    else:
        require_sequence(name, value)


@cache
def _kinds(holder: type) -> Mapping[str, tuple[Any, bool]]:
    """Return the checked fields of a dataclass: the type of each without None, and whether None is allowed."""
    hints = get_type_hints(holder)
    kinds = {}
    for field in dataclasses.fields(holder):
        if not field.init:
            continue
        hint = hints[field.name]
        union = get_origin(hint) in (Union, types.UnionType)
        parts = get_args(hint) if union else (hint,)
        rest = [part for part in parts if part is not type(None)]
        if len(rest) == 1 and (rest[0] in _HOLDERS or get_origin(rest[0]) in (Literal, Sequence, tuple)):
            kinds[field.name] = rest[0], len(rest) < len(parts)
    return kinds

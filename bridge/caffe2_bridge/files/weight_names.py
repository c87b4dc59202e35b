"""Rename parameters for another framework, by a table or by regular expressions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from caffe2_bridge.diagnostics import OptionError


@dataclass(frozen=True)
class Renamed:
    """New names.

    Attributes:
        names: by the names of parameters, the new ones.
        unmatched: parameters that no pattern changes, which keep their names, or that the table lacks, which are left
            out.
        unused: patterns, or names in the table, that match no parameter.
    """

    names: Mapping[str, str]
    unmatched: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()


def rename_parameters(
    parameters: Iterable[str], names: Mapping[str, str] | None = None, rename: Sequence[tuple[str, str]] = ()
) -> Renamed:
    """Return the new names of parameters.

    Args:
        parameters: the names.
        names: a table of new names.
        rename: patterns and replacements (:func:`re.sub`), applied in order, each to the result of those before it.

    Raises:
        OptionError: both are given, a pattern or replacement is invalid, or two parameters get one name.
    """
    if names is not None and rename:
        raise OptionError("names and rename exclude each other")
    renamed = _by_patterns(parameters, rename) if names is None else _by_table(parameters, names)
    taken: dict[str, str] = {}
    for old, new in renamed.names.items():
        if taken.setdefault(new, old) != old:
            raise OptionError(f"parameters {taken[new]!r} and {old!r} have the same new name {new!r}")
    return renamed


def parse_names(text: str) -> dict[str, str]:
    """Parse a table: in each line the name of a parameter and its new name; a line may end in ``# comment``.

    Raises OptionError for a line of other columns, or a name that is there twice.
    """
    table: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        columns = line.partition("#")[0].split()
        if not columns:
            continue
        if len(columns) != 2:
            raise OptionError(f"line {number} of the table of names must have two columns, not {len(columns)}")
        if columns[0] in table:
            raise OptionError(f"line {number} of the table of names has {columns[0]!r} again")
        table[columns[0]] = columns[1]
    return table


def _by_table(parameters: Iterable[str], table: Mapping[str, str]) -> Renamed:
    found = dict.fromkeys(parameters)
    return Renamed(
        {name: table[name] for name in found if name in table},
        tuple(name for name in found if name not in table),
        tuple(name for name in table if name not in found),
    )


def _by_patterns(parameters: Iterable[str], rename: Sequence[tuple[str, str]]) -> Renamed:
    names = {}
    matched: set[str] = set()
    used: set[str] = set()
    for parameter in parameters:
        name = parameter
        for pattern, replacement in rename:
            name, count = _substitute(pattern, replacement, name)
            if count:
                used.add(pattern)
                matched.add(parameter)
        names[parameter] = name
    unmatched = tuple(name for name in names if name not in matched) if rename else ()
    return Renamed(names, unmatched, tuple(pattern for pattern, _ in rename if pattern not in used))


def _substitute(pattern: str, replacement: str, name: str) -> tuple[str, int]:
    try:
        return re.subn(pattern, replacement, name)
    except (re.error, IndexError) as error:
        raise OptionError(f"pattern {pattern!r} with replacement {replacement!r}: {error}") from None

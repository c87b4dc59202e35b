"""The index of the converters: the family and the module of each covered operator type.

``index.txt`` holds it, one operator type a line, so that finding a converter imports no others. ``scripts/operators``
writes the file from the families.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

FILE: Final = Path(__file__).with_suffix(".txt")


class Entry(NamedTuple):
    """Where the converter of an operator type is.

    Attributes:
        module: the module that defines the family, relative to ``caffe2_frontend``.
        family: the family's name.
    """

    module: str
    family: str


def _read() -> dict[str, Entry]:
    lines = FILE.read_text(encoding="ascii").splitlines()
    rows = (line.split("\t") for line in lines)
    return {op_type: Entry(module, family) for op_type, module, family in rows}


INDEX: Final[Mapping[str, Entry]] = _read()
# The Conversions that the user's own code registers, beside those of the index.
REGISTERED: Final[dict[str, Any]] = {}


def supported_operators() -> Mapping[str, tuple[str, ...]]:
    """Return the Caffe2 operator types that convert to ONNX, sorted, by the name of their family.

    Those that :func:`~caffe2_frontend.register_converter` added are the family ``registered``.
    """
    families: dict[str, list[str]] = {"registered": [*REGISTERED]} if REGISTERED else {}
    for op_type, entry in INDEX.items():
        families.setdefault(entry.family, []).append(op_type)
    return {name: tuple(sorted(families[name])) for name in sorted(families)}

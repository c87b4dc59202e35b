"""Nodes that are written as an earlier opset wrote them than the model names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from onnx.defs import OpSchema, SchemaError, get_schema

HINT: Final = "correct the opset that the model names, where it was made"


def earlier_form(op_type: str, version: int, domain: str, fits: Callable[[OpSchema], bool]) -> str:
    """Return of which opsets before ``version`` a node is whose schema ``fits``, as a clause; empty if of none."""
    first = last = 0
    while version > 0:
        try:
            schema = get_schema(op_type, version, domain)
        except (SchemaError, TypeError):  # not defined there; a version beyond the numbers that ONNX counts
            break
        if not schema.deprecated and fits(schema):
            first, last = schema.since_version, last or version
        elif last:
            break
        version = schema.since_version - 1
    if not last:
        return ""
    opsets = f"opset {last}" if first == last else f"opsets {first} to {last}"
    return f"; the node is written as in {opsets}, and the model names a later one"


def form_with_attributes(op_type: str, version: int, names: Iterable[str]) -> str:
    """Return in which opsets before ``version`` an operator of ONNX had attributes of these names, as a clause."""
    wanted = set(names)
    return earlier_form(op_type, version, "", lambda schema: wanted <= schema.attributes.keys())

"""The functions that source may hold: each is copied with those that it calls, and uses torch and math alone."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Collection, Iterator
from types import FunctionType
from typing import Any, Final

from caffe2_torch.functions import boxes, features, int8, ranking, regions, segments
from caffe2_torch.source import helpers

FUNCTIONS: Final[dict[str, Any]] = {
    name: value
    for module in (helpers, segments, int8, boxes, regions, features, ranking)
    for name, value in vars(module).items()
    if isinstance(value, FunctionType | type) and value.__module__ == module.__name__
}


def copied_functions(names: Collection[str]) -> Iterator[str]:
    """Yield the source of functions, and of those that they call, by name; classes, which others need, first."""
    texts: dict[str, str] = {}
    left = [*names]
    while left:
        name = left.pop()
        if name not in texts:
            texts[name] = inspect.getsource(FUNCTIONS[name]).replace("  # fmt: skip", "")
            used = {node.id for node in ast.walk(ast.parse(texts[name])) if isinstance(node, ast.Name)}
            left += sorted(used & FUNCTIONS.keys())
    for name in sorted(texts, key=lambda name: (isinstance(FUNCTIONS[name], FunctionType), name)):
        yield texts[name]

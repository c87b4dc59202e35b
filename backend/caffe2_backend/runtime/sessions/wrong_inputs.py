"""Say which inputs of a failed run are of another type or shape than the model takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from caffe2_backend.input_text import Spec, parse_input


def wrong_inputs(given: Mapping[str, Any], types: Mapping[str, str]) -> str:
    """Return what is wrong with inputs, as a sentence; empty if their types and shapes are those that the model takes.

    Args:
        given: arrays by name; other values are left out.
        types: what the model takes, as text such as ``float32[T,N,256]``. Dims of one name must be one size.
    """
    sizes: dict[str, tuple[int, str]] = {}
    return "; ".join(
        text for name, value in given.items() if name in types for text in _wrong(name, value, types, sizes)
    )


def _wrong(name: str, value: Any, types: Mapping[str, str], sizes: dict[str, tuple[int, str]]) -> Iterator[str]:
    parsed = parse_input(f"input={types[name]}")
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if parsed is None or dtype is None or shape is None:
        return
    found = "string" if dtype.kind in "OSU" else str(dtype)
    is_text = f"input {name!r} is {found}[{','.join(map(str, shape))}]"
    if not _fits(found, shape, parsed[1]):
        yield f"{is_text}, and the model takes {types[name]}"
        return
    for axis, (size, dim) in enumerate(zip(shape, parsed[1][1] or shape, strict=True)):
        if isinstance(dim, str):
            known, where = sizes.setdefault(dim, (size, name))
            if known != size:
                yield f"{is_text}: dim {axis}, {dim}, is {size}, and {known} in input {where!r}"


def _fits(dtype: str, shape: tuple[int, ...], spec: Spec) -> bool:
    expected, dims = spec[:2]
    if dtype != expected or dims is None:
        return dtype == expected
    return len(dims) == len(shape) and all(
        not isinstance(dim, int) or dim == size for dim, size in zip(dims, shape, strict=True)
    )

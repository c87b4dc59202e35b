"""Say which inputs of a failed run are of another type or shape than the model takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from caffe2_backend.input_text import Spec, parse_input
from caffe2_bridge.diagnostics import BridgeError, ConversionError

_OF_TYPE: Final = "Unexpected input data type"  # onnxruntime 1.32: names no input
_INTEGERS: Final = frozenset({"int32", "int64"})


def wrong_inputs(given: Mapping[str, Any], types: Mapping[str, str]) -> str:
    """Return what is wrong with inputs, as a sentence; empty if their types and shapes are those that the model takes.

    Args:
        given: arrays by name; other values are left out.
        types: what the model takes, as text such as ``float32[T,N,256]``. Dims of one name must be one size.
    """
    return _compare(given, types, lambda _expected, _found: False)


def wrong_inputs_of_net(given: Mapping[str, Any], exported: Mapping[str, str], error: BridgeError) -> str:
    """Return which inputs of a net's run that failed contradict its export, as a sentence; empty if none is known to.

    The export was made without the inputs: where a net takes int32 and int64, it has assumed one. So that these differ
    is said if nothing else does, and not if the net was converted for what was given, in which case dims may be wrong,
    or types that the net itself states, as an imported one does.
    """
    if not isinstance(error, ConversionError):
        wrong = _compare(given, exported, lambda _expected, _found: True)
        return wrong or (wrong_inputs(given, exported) if _OF_TYPE in str(error) else "")
    return _compare(given, exported, lambda *names: _INTEGERS.issuperset(names)) or wrong_inputs(given, exported)


def _compare(given: Mapping[str, Any], types: Mapping[str, str], are_alike: Callable[[str, str], bool]) -> str:
    sizes: dict[str, tuple[int, str]] = {}
    found: list[str] = []
    for name, value in given.items():
        dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
        if name in types and dtype is not None and shape is not None:
            expected, bracket, dims = types[name].partition("[")
            actual = "string" if dtype.kind in "OSU" else str(dtype)
            taken = f"{actual if are_alike(expected, actual) else expected}{bracket}{dims}"
            found += _wrong(name, actual, shape, taken, sizes)
    return "; ".join(found)


def _wrong(
    name: str, dtype: str, shape: tuple[int, ...], taken: str, sizes: dict[str, tuple[int, str]]
) -> Iterator[str]:
    parsed = parse_input(f"input={taken}")
    if parsed is None:
        return
    is_text = f"input {name!r} is {dtype}[{','.join(map(str, shape))}]"
    if not _fits(dtype, shape, parsed[1]):
        yield f"{is_text}, and the model takes {taken}"
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

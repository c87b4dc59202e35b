"""What to type to describe an input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Final

from caffe2_frontend.interop.types import Dim, Quantization, TensorInfo, example_dtype

_NAMES: Final = "NDHW"


def input_hint(name: str, info: TensorInfo, taken: set[str] | None = None) -> str:
    """Return text that describes an input by what is known of it, on the command line and in Python.

    Args:
        name: the input.
        info: what is known; an unknown type is float32, an unknown rank 2.
        taken: the names of dims in other hints for the same net, to which those of this one are added. A name that is
            taken is not used again, because equal names mean equal dims.
    """
    return inputs_hint({name: info}, taken)


def inputs_hint(infos: Mapping[str, TensorInfo], taken: set[str] | None = None) -> str:
    """Return text that describes several inputs at once, as :func:`input_hint` does one."""
    taken = set() if taken is None else taken
    typed, spelled = [], []
    for name, info in infos.items():
        shape = (None, None) if info.shape is None else info.shape
        known = [None if dim == generated_name(name, axis) else dim for axis, dim in enumerate(shape)]
        dims, dtype, quantization = usual_dims(known, taken), example_dtype(info), info.quantization
        typed.append(f"--input {quote(_typed(name, dims, dtype, quantization))}")
        spelled.append(f"{name!r}: {_spelled(dims, dtype, quantization)}")
    return f"{' '.join(typed)}, or inputs={{{', '.join(spelled)}}}"


def _typed(name: str, dims: Sequence[Dim], dtype: str, quantization: Quantization | None) -> str:
    scale = "" if quantization is None else f"@{quantization.scale!r},{quantization.zero_point}"
    return f"{name}={dtype}[{','.join('?' if dim is None else str(dim) for dim in dims)}]{scale}"


def _spelled(dims: Sequence[Dim], dtype: str, quantization: Quantization | None) -> str:
    scale = "" if quantization is None else f", ({quantization.scale!r}, {quantization.zero_point})"
    return f"({dtype!r}, {dims!r}{scale})"


def usual_dims(dims: Sequence[Dim], taken: set[str]) -> list[Dim]:
    """Return dims with the usual names for those that have none, and add all names to ``taken``."""
    taken.update(dim for dim in dims if isinstance(dim, str))
    return [usual_name(axis, taken) if dim is None else dim for axis, dim in enumerate(dims)]


def usual_name(axis: int, taken: set[str]) -> str | None:
    """Return the usual name of a dim by its axis (N, D, H, W), and add it to ``taken``; None if it is there already."""
    name = _NAMES[axis] if axis < len(_NAMES) else None
    if name is None or name in taken:
        return None
    taken.add(name)
    return name


def generated_name(name: str, axis: int) -> str:
    """Return the name of an unknown dim of an input."""
    return f"{name}_dim_{axis}"

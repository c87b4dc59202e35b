"""Report all inputs that a run lacks at once, with what is known of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import onnx_ir as ir

from caffe2_backend.runtime.values import NoBlobError
from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.model import Model
from caffe2_frontend import TensorInfo, describe_inputs

_NAMES: Final = {"float": "float32", "double": "float64"}


def missing_inputs(names: Sequence[str], types: Mapping[str, str]) -> NoBlobError:
    """Make the error for inputs that are not given; ``types`` describes those of which something is known."""
    listed = ", ".join(map(repr, names))
    reason = f"input {listed} is not given" if len(names) == 1 else f"inputs {listed} are not given"
    known = ", ".join(f"{name}: {types[name]}" for name in names if name in types)
    return NoBlobError(f"{reason} ({known})" if known else reason)


def net_inputs(model: Model) -> dict[str, str]:
    """The element types and shapes of a net's inputs as text; empty if the net cannot be analyzed."""
    try:
        infos = describe_inputs(model)
    except BridgeError:
        return {}
    return {name: _text(name, info) for name, info in infos.items()}


def onnx_type_text(type_name: str, shape: Sequence[int | str | None] | None) -> str:
    """An input of an onnxruntime session as text: ``tensor(float)`` and its dims."""
    inner = type_name.removeprefix("tensor(").removesuffix(")")
    return _NAMES.get(inner, inner) + _dims(shape)


def _text(name: str, info: TensorInfo) -> str:
    dtype = info.dtype or ir.DataType.FLOAT
    shape = info.shape
    dims = None if shape is None else [None if dim == f"{name}_dim_{i}" else dim for i, dim in enumerate(shape)]
    return ("string" if dtype is ir.DataType.STRING else dtype.numpy().name) + _dims(dims)


def _dims(shape: Sequence[int | str | None] | None) -> str:
    return "" if shape is None else f"[{','.join('?' if dim is None else str(dim) for dim in shape)}]"

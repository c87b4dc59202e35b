"""Report all inputs that a run lacks at once, with what is known of them, and all names that are not inputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

import onnx_ir as ir

from caffe2_backend.runtime.values import NoBlobError
from caffe2_bridge.diagnostics import BridgeError, RunError
from caffe2_bridge.diagnostics.listing import listed
from caffe2_bridge.diagnostics.log import muted
from caffe2_bridge.diagnostics.nearest import nearest_first
from caffe2_bridge.model import Model
from caffe2_frontend import TensorInfo, convert, describe_inputs
from caffe2_frontend.interop.input_hint import generated_name

_NAMES: Final = {"float": "float32", "double": "float64"}
_LISTED: Final = 20


def missing_inputs(names: Sequence[str], types: Mapping[str, str]) -> NoBlobError:
    """Make the error for inputs that are not given; ``types`` describes those of which something is known."""
    listed = ", ".join(map(repr, names))
    reason = f"input {listed} is not given" if len(names) == 1 else f"inputs {listed} are not given"
    known = ", ".join(f"{name}: {types[name]}" for name in names if name in types)
    return NoBlobError(f"{reason} ({known})" if known else reason)


def require_mapping(inputs: object, names: Sequence[str], types: Callable[[], Mapping[str, str]]) -> None:
    """Raise RunError if inputs are not a mapping from names to values; ``types`` describes those that are known."""
    if isinstance(inputs, Mapping):
        return
    described = types()
    known = ", ".join(f"{name}: {described[name]}" if name in described else name for name in names[:_LISTED])
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    example = f"{{{names[0]!r}: array}}" if names else "{}"
    has = f"the model has the inputs {known}{more}" if names else "the model has no inputs"
    kind = type(inputs).__name__
    raise RunError(f"inputs must be a mapping from names to arrays, such as {example}, not {kind}: {has}")


def require_inputs(names: Iterable[str], inputs: Collection[str], parameters: Collection[str] = ()) -> None:
    """Raise RunError if a name is neither an input, nor a parameter, whose value it would replace.

    The error lists the inputs, and the parameters of a similar name; the nearest name is the first.
    """
    unknown = [name for name in names if name not in inputs and name not in parameters]
    if not unknown:
        return
    similar = [found for name in unknown for found in get_close_matches(name, parameters)]
    known = nearest_first(dict.fromkeys([*inputs, *similar]), unknown)
    which = f"input {unknown[0]!r} does" if len(unknown) == 1 else f"inputs {listed(unknown, _LISTED)} do"
    has = f"the inputs {listed(known, _LISTED)}" if known else "no inputs"
    raise RunError(f"{which} not exist: the model has {has}")


def net_inputs(model: Model) -> dict[str, str]:
    """Return the element types and shapes of a net's inputs as text; empty if the net cannot be analyzed."""
    try:
        infos = describe_inputs(model)
    except BridgeError:
        return {}
    return {name: _text(name, info) for name, info in infos.items()}


def exported_inputs(model: Model) -> dict[str, str]:
    """Return the element types and shapes of the inputs of a net's export as text; empty if it does not convert."""
    try:
        with muted():
            values = convert(model).graph.inputs
    except BridgeError:
        return {}
    return {str(value.name): _value_text(value) for value in values if value.dtype is not None}


def _value_text(value: ir.Value) -> str:
    dims = None if value.shape is None else [dim if isinstance(dim, int) else dim.value for dim in value.shape]
    return onnx_type_text(f"tensor({ir.DataType(value.dtype or 0).name.lower()})", dims)


def onnx_type_text(type_name: str, shape: Sequence[int | str | None] | None) -> str:
    """Return an input of an onnxruntime session as text: ``tensor(float)`` and its dims."""
    inner = type_name.removeprefix("tensor(").removesuffix(")")
    return _NAMES.get(inner, inner) + _dims(shape)


def _text(name: str, info: TensorInfo) -> str:
    dtype = info.dtype or ir.DataType.FLOAT
    shape = info.shape
    dims = None if shape is None else [None if dim == generated_name(name, i) else dim for i, dim in enumerate(shape)]
    return ("string" if dtype is ir.DataType.STRING else dtype.numpy().name) + _dims(dims)


def _dims(shape: Sequence[int | str | None] | None) -> str:
    return "" if shape is None else f"[{','.join('?' if dim is None else str(dim) for dim in shape)}]"

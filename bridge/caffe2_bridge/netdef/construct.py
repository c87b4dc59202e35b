"""Make operators and their arguments from plain Python values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from caffe2_bridge.diagnostics import BuildError
from caffe2_bridge.proto.caffe2_pb2 import Argument, DeviceOption, NetDef, OperatorDef, TensorProto

_LISTS: Final = (  # the first match decides, so an empty list is of integers
    ("ints", (bool, int, np.integer, np.bool_)),
    ("floats", (float, np.floating)),
    ("strings", (str, bytes)),
    ("nets", (NetDef,)),
    ("tensors", (TensorProto,)),
)
_PLAIN: Final = frozenset({int, float, bytes, NetDef, TensorProto})  # types that a field takes as they are


def make_argument(name: str, value: Any) -> Argument:
    """Make an argument whose field follows from the type of ``value``.

    ======================  ==================================
    ``bool``, ``int``       ``i``
    ``float``               ``f`` (float32 on the wire)
    ``str``, ``bytes``      ``s``
    ``NetDef``              ``n``
    ``TensorProto``         ``t``
    an iterable or array    the repeated field of its elements
    ======================  ==================================

    As in Caffe2, a list must not mix integers and floats: the operator reads only one of the two fields.

    Raises:
        BuildError: no field holds a value of this type, a list mixes types, or an integer has more than 64 bits.
    """
    try:
        return _argument(name, value)
    except UnicodeError:
        raise BuildError(f"argument {name!r} has text that UTF-8 cannot encode") from None
    except ValueError:  # of protobuf
        raise BuildError(f"argument {name!r} has an integer that 64 bits do not hold") from None


def _argument(name: str, value: Any) -> Argument:
    if isinstance(value, np.ndarray):
        value = value.reshape(-1).tolist()
    elif isinstance(value, np.generic):
        value = value.item()
    match value:
        case bool() | int():
            return Argument(name=name, i=int(value))
        case float():
            return Argument(name=name, f=value)
        case str() | bytes():
            return Argument(name=name, s=_bytes(value))
        case NetDef():
            return Argument(name=name, n=value)
        case TensorProto():
            return Argument(name=name, t=value)
        case list() | Iterable():  # instances of the first are found faster
            return _list(name, list(value))
    raise BuildError(
        f"argument {name!r} must be a number, text, bytes, net, tensor or a list of these, not {type(value).__name__}"
    )


def _list(name: str, values: list[Any]) -> Argument:
    found = set(map(type, values))
    for field, types in _LISTS:
        if all(issubclass(kind, types) for kind in found):
            argument = Argument(name=name)
            getattr(argument, field).extend(values if found <= _PLAIN else map(_to_field, values))
            return argument
    kinds = sorted(kind.__name__ for kind in found)
    raise BuildError(f"argument {name!r} must be a list of values of one type, not of {' and '.join(kinds)}")


def _to_field(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return int(value) if isinstance(value, bool) else _bytes(value) if isinstance(value, str) else value


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def make_operator(
    kind: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    args: Mapping[str, Any],
    *,
    engine: str = "",
    op_name: str = "",
    device_option: DeviceOption | None = None,
) -> OperatorDef:
    """Make an operator; arguments that are None are omitted. Raises BuildError as :func:`make_argument` does."""
    op = OperatorDef(type=kind, input=inputs, output=outputs)
    if op_name:
        op.name = op_name
    if engine:
        op.engine = engine
    if device_option is not None:
        op.device_option.CopyFrom(device_option)
    op.arg.extend(make_argument(name, value) for name, value in args.items() if value is not None)
    return op

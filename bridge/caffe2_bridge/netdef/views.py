"""Read-only views of NetDef and OperatorDef protobufs, through which the rest of the project reads nets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, overload

import numpy as np
from google.protobuf.message import DecodeError, Message

from caffe2_bridge.cached import cached_property
from caffe2_bridge.diagnostics import BridgeError, NetFormatError
from caffe2_bridge.netdef.names import require_text_in_net
from caffe2_bridge.proto.caffe2_pb2 import Argument, NetDef, OperatorDef, TensorProto
from caffe2_bridge.schemas import operator_schema
from caffe2_bridge.wire import scalar_array
from caffe2_bridge.wire.messages import TextError, is_message, parse_message, parse_text, require_fields

_INT32: Final = 1 << 31
_SCALARS: Final = ("f", "i", "s", "n", "t")
_LISTS: Final = ("floats", "ints", "strings", "nets", "tensors", "qtensors")
_KIND: Final = {
    "f": "a float", "i": "an integer", "s": "a string", "n": "a net", "t": "a tensor",
    "floats": "floats", "ints": "integers", "strings": "strings", "nets": "nets", "tensors": "tensors",
    "qtensors": "quantized tensors",
}  # fmt: skip


class ArgumentError(BridgeError):
    """An argument is missing or has the wrong type. The message names the argument, not the operator."""


@dataclass(frozen=True, slots=True)
class _Required:
    """The type of the default that marks a required argument."""


_REQUIRED: Final = _Required()


class Args:
    """Typed access to the arguments of an operator or net, strict as Caffe2's ArgumentHelper.

    Each method reads one field of the Argument: a float argument that is stored as an integer is an error, as in
    Caffe2. Without ``default`` an argument is required. ``read`` holds the names that were read so far. ``op_type`` is
    the operator's type, empty for a net.

    All methods raise ArgumentError if the argument is missing and has no default, is stored in another field, or is
    an integer beyond 32 bits that the operator reads as one of 32 bits.
    """

    __slots__ = ("_args", "_op_type", "read")

    def __init__(self, args: Iterator[Argument] | Any, op_type: str = "") -> None:
        self._args: dict[str, Argument] = {}
        self._op_type = op_type
        self.read: set[str] = set()
        for arg in args:
            known = self._args.setdefault(arg.name, arg)
            if known is not arg and known != arg:
                raise ArgumentError(f"argument {arg.name!r} is given twice with different values")

    def __contains__(self, name: object) -> bool:
        return name in self._args

    def __iter__(self) -> Iterator[str]:
        return iter(self._args)

    @property
    def unread(self) -> list[str]:
        """Names of the arguments that were not read yet."""
        return [name for name in self._args if name not in self.read]

    def ignore(self, *names: str) -> None:
        """Mark arguments as read that do not affect the result."""
        self.read.update(names)

    def raw(self, name: str) -> Argument | None:
        """Return the protobuf of an argument; None if it is absent."""
        self.read.add(name)
        return self._args.get(name)

    def _scalar(self, name: str, field_name: str, default: Any) -> Any:
        self.read.add(name)
        arg = self._args.get(name)
        if arg is None:
            if isinstance(default, _Required):
                raise ArgumentError(f"argument {name!r} is missing; it must be {_KIND[field_name]}")
            return default
        if not arg.HasField(field_name):  # type: ignore[arg-type]
            raise ArgumentError(f"argument {name!r} must be {_KIND[field_name]}, not {_kind(arg)}")
        return getattr(arg, field_name)

    def _list(self, name: str, field_name: str, default: Any) -> Any:
        self.read.add(name)
        arg = self._args.get(name)
        if arg is None:
            if isinstance(default, _Required):
                raise ArgumentError(f"argument {name!r} is missing; it must be a list of {_KIND[field_name]}")
            return default
        values = getattr(arg, field_name)
        if not values and _kind(arg) != "empty":
            raise ArgumentError(f"argument {name!r} must be a list of {_KIND[field_name]}, not {_kind(arg)}")
        return values

    def _fitting(self, name: str, value: int) -> int:
        """Return the value of an integer argument, which must fit into what the operator reads it as."""
        if not -_INT32 <= value < _INT32:
            schema = operator_schema(self._op_type)
            if schema is not None and name in schema.int32_arguments:
                raise ArgumentError(f"argument {name!r} must fit into 32 bits, not {value}")
        return value

    def integer(self, name: str, default: int | _Required = _REQUIRED) -> int:
        """Return an integer argument."""
        return self._fitting(name, int(self._scalar(name, "i", default)))

    @overload
    def optional_integer(self, name: str) -> int | None: ...
    @overload
    def optional_integer(self, name: str, default: int) -> int: ...
    def optional_integer(self, name: str, default: int | None = None) -> int | None:
        """Return an integer argument; ``default`` if it is absent."""
        value = self._scalar(name, "i", default)
        return None if value is None else self._fitting(name, int(value))

    def number(self, name: str, default: float | _Required = _REQUIRED) -> float:
        """Return a float argument (float32 on the wire)."""
        return float(self._scalar(name, "f", default))

    def flag(self, name: str, default: bool | _Required = _REQUIRED) -> bool:
        """Return a boolean argument: an integer on the wire, of which Caffe2 takes every one but 0 as true."""
        return bool(self._scalar(name, "i", default))

    def text(self, name: str, default: str | _Required = _REQUIRED) -> str:
        """Return a string argument, decoded from UTF-8."""
        value = self._scalar(name, "s", default)
        return value if isinstance(value, str) else decode_text(name, value)

    def integers(self, name: str, default: tuple[int, ...] | _Required = _REQUIRED) -> tuple[int, ...]:
        """Return a list of integers."""
        values = tuple(self._list(name, "ints", default))
        if values:
            self._fitting(name, min(values))
            self._fitting(name, max(values))
        return values

    def numbers(self, name: str, default: tuple[float, ...] | _Required = _REQUIRED) -> tuple[float, ...]:
        """Return a list of floats."""
        return tuple(self._list(name, "floats", default))

    def texts(self, name: str, default: tuple[str, ...] | _Required = _REQUIRED) -> tuple[str, ...]:
        """Return a list of strings, decoded from UTF-8."""
        values = self._list(name, "strings", default)
        return tuple(v if isinstance(v, str) else decode_text(name, v) for v in values)

    def blobs(self, name: str, default: tuple[bytes, ...] | _Required = _REQUIRED) -> tuple[bytes, ...]:
        """Return a list of strings as bytes."""
        return tuple(self._list(name, "strings", default))

    def tensors(self, name: str, default: tuple[TensorProto, ...] | _Required = _REQUIRED) -> tuple[TensorProto, ...]:
        """Return a list of tensors."""
        return tuple(self._list(name, "tensors", default))

    def array(self, name: str) -> np.ndarray[tuple[int], np.dtype[Any]]:
        """Return a list of floats (float32) or integers (int64) as a one-dimensional array."""
        self.read.add(name)
        arg = self._args.get(name)
        if arg is None:
            raise ArgumentError(f"argument {name!r} is missing; it must be a list of floats or integers")
        return scalar_array(arg)

    def net(self, name: str, default: NetDef | _Required | None = _REQUIRED) -> NetDef | None:
        """Return a sub-net: a net argument, or a string argument that holds protobuf text, as in old models."""
        self.read.add(name)
        arg = self._args.get(name)
        if arg is not None and arg.HasField("s"):
            if not arg.s.strip():
                return NetDef()
            try:
                return parse_text(NetDef, arg.s)
            except TextError as error:
                raise ArgumentError(f"argument {name!r} is not the protobuf text of a net: {error}") from None
        value: NetDef | None = self._scalar(name, "n", default)
        return value


def decode_text(name: str, value: bytes) -> str:
    """Decode the text of argument ``name``. Raises ArgumentError if it is not UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise ArgumentError(f"argument {name!r} is not UTF-8 text") from None


def _kind(arg: Argument) -> str:
    for name in _SCALARS:
        if arg.HasField(name):
            return _KIND[name]
    for name in _LISTS:
        if getattr(arg, name):
            return _KIND[name]
    return "empty"


@dataclass
class OpView:
    """A read-only view of one operator of a net. ``index`` is its index in the net.

    It is not frozen: to make one would take twice as long, and there is one for each operator of a net.
    """

    proto: OperatorDef = field(repr=False)
    index: int

    @cached_property
    def type(self) -> str:
        """The operator type, such as ``FC``."""
        return self.proto.type

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Names of the input blobs."""
        return tuple(self.proto.input[:])  # the slice halves the time

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """Names of the output blobs."""
        return tuple(self.proto.output[:])

    @cached_property
    def args(self) -> Args:
        """The arguments; always the same object, which records the names that were read."""
        return Args(self.proto.arg, self.type)

    @property
    def name(self) -> str:
        """The operator's own name, often empty."""
        return self.proto.name

    @property
    def engine(self) -> str:
        """The requested engine, often empty."""
        return self.proto.engine

    @property
    def random_seed(self) -> float | None:
        """The random seed of the device option; None if it has none."""
        device = self.proto.device_option
        return float(device.random_seed) if device.HasField("random_seed") else None


@dataclass(frozen=True)
class NetView:
    """A read-only view of a net."""

    proto: NetDef = field(repr=False)

    @cached_property
    def ops(self) -> tuple[OpView, ...]:
        """The operators in execution order."""
        return tuple(OpView(op, i) for i, op in enumerate(self.proto.op))

    @cached_property
    def args(self) -> Args:
        """The net's own arguments."""
        return Args(self.proto.arg)

    @property
    def name(self) -> str:
        """The net's name; ``net`` if it is empty."""
        return self.proto.name or "net"

    @cached_property
    def external_inputs(self) -> tuple[str, ...]:
        """Declared inputs, in order, duplicates removed."""
        return tuple(dict.fromkeys(self.proto.external_input))

    @cached_property
    def external_outputs(self) -> tuple[str, ...]:
        """Declared outputs, in order, duplicates removed."""
        return tuple(dict.fromkeys(self.proto.external_output))

    @cached_property
    def read_first(self) -> tuple[str, ...]:
        """Blobs that are read before the net writes them, in order."""
        written: set[str] = set()
        first: dict[str, None] = {}
        for op in self.ops:
            first.update((name, None) for name in op.inputs if name and name not in written)
            written.update(op.outputs)
        return tuple(first)


def as_net_def(net: Message | bytes, what: str = "net") -> NetDef:
    """Convert a net to this project's NetDef.

    Args:
        net: a NetDef of this project, which is returned as is, or of Caffe2, or a serialized one.
        what: how messages call the net.

    Raises:
        NetFormatError: ``net`` is not a NetDef.
    """
    if is_message(net, "NetDef"):
        try:
            require_fields(net)
        except DecodeError as error:
            raise NetFormatError(f"the NetDef is incomplete: {error}", what) from None
        if isinstance(net, NetDef):
            return net
        net = net.SerializeToString()
    if not isinstance(net, bytes):
        raise NetFormatError(f"the net must be a NetDef or a serialized one, not {type(net).__name__}", what)
    try:
        parsed = parse_message(NetDef, net)
        require_text_in_net(parsed)
    except DecodeError as error:
        raise NetFormatError(f"the bytes are not a serialized NetDef: {error}", what) from None
    except NetFormatError as error:
        raise NetFormatError(error.reason, what) from None
    return parsed

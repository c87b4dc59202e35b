"""Read init nets as parameters: fold the constant operators, and keep those that must be run or converted."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from google.protobuf.message import DecodeError, Message

from caffe2_bridge.diagnostics import Diagnostic, Location, NetFormatError
from caffe2_bridge.init.fills import FILLS, Filled, FillError, FillOp, Values
from caffe2_bridge.netdef.data_type import data_type
from caffe2_bridge.netdef.names import require_text, require_text_in_operator
from caffe2_bridge.netdef.parameters import DTYPES, Parameter
from caffe2_bridge.netdef.views import Args, ArgumentError, OpView, as_net_def
from caffe2_bridge.proto.caffe2_pb2 import Argument, DeviceOption, NetDef, OperatorDef
from caffe2_bridge.wire import read as wire

Chunks = Iterator[bytes | memoryview]

_DEFAULT_SEED: Final = 2017
_VALUES: Final = "values"
_COPIES: Final = frozenset({
    "Copy", "CopyCPUToGPU", "CopyGPUToCPU", "CopyFromCPUInput", "EnsureCPUOutput", "EnsureDense", "StopGradient",
})  # fmt: skip
_TO_HOST: Final = frozenset({"CopyGPUToCPU", "EnsureCPUOutput"})
_EMPTY: Final[Mapping[str, Parameter]] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class InitNet:
    """An init net: constant parameters and other operators.

    Attributes:
        parameters: the constants, by blob name. Running the net is equivalent to setting these and then running
            ``rest`` in order.
        rest: the operators that are not constant, each with its index in the net: loads from databases, computations,
            and fills of a blob that one of these has used before.
        findings: diagnostics: ``bad-fill`` for a fill that Caffe2 would reject, ``not-an-init-net`` for operators that
            read blobs that nothing in the net writes.
        placeholders: fills of blobs that are inputs of the predict net: their shapes are informative, their values are
            not.
        serialized: yields the net's protobuf bytes in pieces.
    """

    parameters: Mapping[str, Parameter] = field(default_factory=lambda: _EMPTY)
    rest: tuple[OpView, ...] = ()
    findings: tuple[Diagnostic, ...] = ()
    placeholders: Mapping[str, Parameter] = field(default_factory=lambda: _EMPTY)
    serialized: Callable[[], Chunks] = field(
        default=lambda: iter((NetDef(name="init").SerializeToString(),)), repr=False
    )

    @cached_property
    def net(self) -> NetDef:
        """The net as a protobuf, parsed on first use. Raises NetFormatError beyond protobuf's limit of 2 GB."""
        return as_net_def(b"".join(self.serialized()), "init net")

    def with_inputs(self, names: Iterable[str]) -> InitNet:
        """Return the init net with the fills of these blobs, which are inputs, as placeholders."""
        names = dict.fromkeys(name for name in names if name in self.parameters)
        if not names:
            return self
        kept = {name: p for name, p in self.parameters.items() if name not in names}
        # A fill without elements carries no shape: it only makes the blob exist.
        known = {name: self.parameters[name] for name in names if self.parameters[name].shape != (0,)}
        placeholders = {**self.placeholders, **known}
        return dataclasses.replace(self, parameters=MappingProxyType(kept), placeholders=MappingProxyType(placeholders))


def read_init_net(net: Message | bytes | wire.Span, known: Mapping[str, Parameter] = _EMPTY) -> InitNet:
    """Read an init net; values are decoded on demand from ``net``, which must not change meanwhile.

    Args:
        net: a NetDef of this project or of Caffe2, a serialized one, or a span of a (mapped) file.
        known: parameters that exist before the net runs.

    Returns:
        The init net; errors in its operators are in its ``findings``.

    Raises:
        NetFormatError: ``net`` is not a NetDef.
    """
    if isinstance(net, wire.Span | bytes):
        span = net if isinstance(net, wire.Span) else wire.Span.of(net)
        header, operators = _from_span(span)
        serialized: Callable[[], Chunks] = span.pieces
    else:
        proto = as_net_def(net, "init net")
        header, operators = proto, map(_Operator.of_proto, proto.op)

        def serialized() -> Chunks:
            yield proto.SerializeToString()

    reader = _Reader(header, dict(known))
    for index, operator in enumerate(operators):
        reader.add(index, operator)
    return InitNet(MappingProxyType(reader.parameters), tuple(reader.rest), reader.all_findings(), _EMPTY, serialized)


@dataclass(frozen=True, slots=True)
class _Operator:
    """An operator without its ``values`` argument, the values, and a function that returns the complete operator."""

    light: OperatorDef
    values: Values | None
    whole: Callable[[], OperatorDef]

    @classmethod
    def of_proto(cls, op: OperatorDef) -> _Operator:
        values = [arg for arg in op.arg if arg.name == _VALUES]
        if not values:
            return cls(op, None, lambda: op)
        light = OperatorDef(type=op.type, name=op.name, input=op.input, output=op.output)
        if op.HasField("device_option"):
            light.device_option.CopyFrom(op.device_option)
        light.arg.extend(arg for arg in op.arg if arg.name != _VALUES)
        last = values[-1]
        return cls(light, Values(lambda: wire.Span.of(last.SerializeToString())), lambda: op)

    @classmethod
    def of_span(cls, span: wire.Span) -> _Operator:
        light, args = wire.split(span, (OperatorDef.ARG_FIELD_NUMBER,))
        parts, values = [light], None
        for arg in args:
            payload = span.within(arg.start, arg.end)
            if _argument_name(payload) == _VALUES.encode():
                values = Values(lambda payload=payload: payload)  # type: ignore[misc] # a default binds the current payload
            else:
                parts.append(span.buffer.view[arg.tag_at : arg.end].tobytes())
        return cls(_parse(b"".join(parts)), values, lambda: _parse(span.tobytes()))


def _argument_name(span: wire.Span) -> bytes:
    for item in wire.fields(span):
        if item.number == Argument.NAME_FIELD_NUMBER and item.kind == wire.LEN:
            return span.within(item.start, item.end).tobytes()
    return b""


def _parse(data: bytes) -> OperatorDef:
    try:
        return OperatorDef.FromString(data)
    except DecodeError as error:
        raise NetFormatError(f"damaged operator: {error}") from None


def _from_span(span: wire.Span) -> tuple[NetDef, Iterator[_Operator]]:
    header, ops = wire.split(span, (NetDef.OP_FIELD_NUMBER,))
    return as_net_def(header, "init net"), (_Operator.of_span(span.within(op.start, op.end)) for op in ops)


class _Reader:
    """Read an init net in one pass: fold each operator into a constant, or keep it.

    An operator is folded if it only computes constants of constants, and no operator that is kept has read or written
    its output: the constants are set before the kept operators run.
    """

    def __init__(self, header: NetDef, known: dict[str, Parameter]) -> None:
        require_text((header.name, *header.external_input, *header.external_output), "net")
        self.name = header.name or "init"
        self.device = header.device_option if header.HasField("device_option") else None
        self.parameters = known
        self.rest: list[OpView] = []
        self._diagnostics: list[Diagnostic] = []
        self._undefined: list[Diagnostic] = []  # of operators that read blobs that nothing writes
        self._defined = set(known)
        self._failed: set[str] = set()
        self._read_by_rest: set[str] = set()
        self._written_by_rest: set[str] = set()

    def add(self, index: int, operator: _Operator) -> None:
        op = operator.light
        require_text_in_operator(op, index)
        if not self._failed.isdisjoint(op.input):  # the cause is reported already
            self._failed.update(op.output)
            self._defined.update(op.output)
            return
        if self._is_constant(op):
            self._fold(index, operator)
        else:
            self._keep(index, operator)
        self._defined.update(op.output)

    def _is_constant(self, op: OperatorDef) -> bool:
        """Return whether the operator can be folded: computed before ``rest``."""
        return (
            op.type in FOLDED
            and len(op.output) == 1
            and op.output[0] not in self._read_by_rest | self._written_by_rest
            and all(name in self.parameters and name not in self._written_by_rest for name in op.input)
        )

    def _fold(self, index: int, operator: _Operator) -> None:
        op = operator.light
        name = op.output[0]
        location = Location(self.name, index, op.type, op.name)
        inputs = tuple(self.parameters[n] for n in op.input)
        device = op.device_option if op.HasField("device_option") else self.device
        try:
            filled = _filled(operator, index, inputs, device)
        except (FillError, ArgumentError, NetFormatError) as error:
            self._diagnostics.append(Diagnostic("bad-fill", str(error), location))
            self._failed.add(name)
            self.parameters.pop(name, None)
            return
        self._failed.discard(name)
        if op.type in _TO_HOST:
            device = None
        make = _checked_make(filled, name, location)
        self.parameters[name] = Parameter(
            name, filled.dtype, filled.shape, make, filled.scale, filled.zero_point, device
        )

    def _keep(self, index: int, operator: _Operator) -> None:
        op = operator.light
        missing = [name for name in op.input if name not in self._defined]
        if missing and op.type != "Load":
            reason = f"the operator reads {missing[0]!r}, which no operator of the init net writes"
            self._undefined.append(Diagnostic("not-an-init-net", reason, Location(self.name, index, op.type, op.name)))
        self.rest.append(OpView(operator.whole(), index))
        self._read_by_rest.update(op.input)
        self._written_by_rest.update(op.output)

    def all_findings(self) -> tuple[Diagnostic, ...]:
        """Return all diagnostics in net order; of the operators that read undefined blobs, the first only."""
        found = list(self._diagnostics)
        if self._undefined:
            first = self._undefined[0]
            more = f" ({len(self._undefined) - 1} more operators do the same)" if len(self._undefined) > 1 else ""
            hint = "an init net only writes parameters: exchange the files if this is a predict net"
            found.append(dataclasses.replace(first, reason=first.reason + more, hint=hint))
        return tuple(sorted(found, key=lambda diagnostic: diagnostic.location.index or 0))


def _filled(operator: _Operator, index: int, inputs: tuple[Parameter, ...], device: DeviceOption | None) -> Filled:
    op = operator.light
    if op.type in FILLS:
        seeded = device is not None and device.HasField("random_seed")
        seed = (device.random_seed,) if seeded and device is not None else (_DEFAULT_SEED, index)
        return FILLS[op.type](FillOp(Args(op.arg), operator.values, inputs, seed))
    if len(inputs) != 1:
        raise FillError(f"the operator must have one input, not {len(inputs)}")
    source = inputs[0]
    if op.type in _COPIES:
        return Filled(source.dtype, source.shape, source.load, source.scale, source.zero_point)
    return _CASTS[op.type](Args(op.arg), source)


def _checked_make(filled: Filled, name: str, location: Location) -> Callable[[], Any]:
    """Decode the values, check their number and reshape them; damage in a large payload is found only here."""

    def make() -> Any:
        try:
            values = filled.make()
        except NetFormatError as error:
            raise NetFormatError(f"{location}: {error.reason}", error.source) from None
        if values.size != int(np.prod(filled.shape, dtype=object)):
            raise NetFormatError(f"{location}: blob {name!r} has {values.size} values for shape {list(filled.shape)}")
        return values.reshape(filled.shape)

    return make


def _cast(args: Args, source: Parameter) -> Filled:
    number = data_type(args, "to")
    dtype = DTYPES.get(number)
    if dtype is None or source.dtype.kind == "O" or source.scale is not None:
        kind = "a quantized tensor" if source.scale is not None else source.dtype.name
        raise FillError(f"input {source.name!r} is {kind}, which cannot be cast to data type {number}")
    return _as_text(source) if dtype.kind == "O" else _as(source, dtype)


def _as_text(source: Parameter) -> Filled:
    """Convert numbers to strings as C++'s to_string does: floats with six decimals."""
    pattern = "%f" if source.dtype.kind == "f" else "%d"

    def make() -> Any:
        out = np.empty(source.size, object)
        out[:] = [(pattern % value).encode() for value in source.load().reshape(-1)]
        return out

    return Filled(np.dtype(object), source.shape, make)


def _float_to_half(args: Args, source: Parameter) -> Filled:
    clip = bool(args.integer("clip", default=0))
    if source.dtype != np.float32:
        raise FillError(f"input {source.name!r} must be float32, not {source.dtype.name}")
    largest = float(np.finfo(np.float16).max)

    def make() -> Any:
        values = source.load()
        with np.errstate(over="ignore"):
            return (np.clip(values, -largest, largest) if clip else values).astype(np.float16)

    return Filled(np.dtype(np.float16), source.shape, make)


def _half_to_float(_: Args, source: Parameter) -> Filled:
    if source.dtype != np.float16:
        raise FillError(f"input {source.name!r} must be float16, not {source.dtype.name}")
    return _as(source, np.dtype(np.float32))


def _as(source: Parameter, dtype: np.dtype[Any]) -> Filled:
    def make() -> Any:
        with np.errstate(invalid="ignore", over="ignore"):
            values = source.load()
            if values.dtype.kind == "f" and dtype.kind in "iu":
                values = values.astype(np.int64)  # truncate, then wrap around, as C does
            return values.astype(dtype)

    return Filled(dtype, source.shape, make)


_CASTS: Final = MappingProxyType({"Cast": _cast, "FloatToHalf": _float_to_half, "HalfToFloat": _half_to_float})
FOLDED: Final = frozenset({*FILLS, *_COPIES, *_CASTS})  # the operator types that compute constants of constants

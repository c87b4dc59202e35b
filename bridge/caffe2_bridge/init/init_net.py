"""Init nets read as parameters: which operators are constants, and which must be run or converted."""

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
from caffe2_bridge.netdef.names import require_text, require_text_in_operator
from caffe2_bridge.netdef.parameters import DTYPES, Parameter
from caffe2_bridge.netdef.views import Args, ArgumentError, OpView, as_net_def
from caffe2_bridge.proto.caffe2_pb2 import Argument, DeviceOption, NetDef, OperatorDef, TensorProto
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
    """An init net.

    Attributes:
        parameters: the constants, by blob name. To run the net is to take these and then to run ``rest`` in order.
        rest: operators that are no constants, each with its index in the net: loads from databases, computations, and
            fills of a blob that one of those has used before.
        findings: what is wrong: ``bad-fill`` for a fill that Caffe2 would refuse, ``not-an-init-net`` where operators
            read blobs that nothing in the net makes.
        placeholders: fills of blobs that are really inputs of the predict net; they say shapes, no values.
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
        """The net as a protobuf; parsed on first use. Raises NetFormatError beyond protobuf's limit of 2 GB."""
        return as_net_def(b"".join(self.serialized()), "init net")

    def with_inputs(self, names: Iterable[str]) -> InitNet:
        """The same with the fills of these blobs, which are inputs, as placeholders."""
        names = dict.fromkeys(name for name in names if name in self.parameters)
        if not names:
            return self
        kept = {name: p for name, p in self.parameters.items() if name not in names}
        # A fill of no elements says nothing: it is only there so that the blob exists.
        known = {name: self.parameters[name] for name in names if self.parameters[name].shape != (0,)}
        placeholders = {**self.placeholders, **known}
        return dataclasses.replace(self, parameters=MappingProxyType(kept), placeholders=MappingProxyType(placeholders))


def read_init_net(net: Message | bytes | wire.Span, known: Mapping[str, Parameter] = _EMPTY) -> InitNet:
    """Interpret an init net: a NetDef of this project or of Caffe2, its serialized bytes, or a span of a (mapped) file.

    ``known`` are parameters that exist before it runs. Values are not decoded: they are read from ``net`` when asked
    for, which is not to be changed meanwhile. Raises NetFormatError where ``net`` is no NetDef; what is wrong with its
    operators are findings.
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
    """An operator without its ``values``, those, and a way to the whole of it."""

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
                values = Values(lambda payload=payload: payload)  # type: ignore[misc] # bound here and now
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
    """Goes through an init net once and sorts its operators."""

    def __init__(self, header: NetDef, known: dict[str, Parameter]) -> None:
        require_text((header.name, *header.external_input, *header.external_output), "net")
        self.name = header.name or "init"
        self.device = header.device_option if header.HasField("device_option") else None
        self.parameters = known
        self.rest: list[OpView] = []
        self._findings: list[Diagnostic] = []
        self._strange: list[Diagnostic] = []  # operators that read what nothing makes
        self._made = set(known)
        self._failed: set[str] = set()
        self._read_by_rest: set[str] = set()
        self._written_by_rest: set[str] = set()

    def add(self, index: int, operator: _Operator) -> None:
        op = operator.light
        require_text_in_operator(op, index)
        if not self._failed.isdisjoint(op.input):  # its cause is reported already
            self._failed.update(op.output)
            self._made.update(op.output)
            return
        if self._is_constant(op):
            self._fold(index, operator)
        else:
            self._keep(index, operator)
        self._made.update(op.output)

    def _is_constant(self, op: OperatorDef) -> bool:
        """Whether the operator may be taken out in front of ``rest``."""
        return (
            op.type in FOLDED
            and len(op.output) == 1
            and op.output[0] not in self._read_by_rest | self._written_by_rest
            and all(name in self.parameters and name not in self._written_by_rest for name in op.input)
        )

    def _fold(self, index: int, operator: _Operator) -> None:
        op = operator.light
        name = op.output[0]
        place = Location(self.name, index, op.type, op.name)
        inputs = tuple(self.parameters[n] for n in op.input)
        device = op.device_option if op.HasField("device_option") else self.device
        try:
            filled = _filled(operator, index, inputs, device)
        except (FillError, ArgumentError, NetFormatError) as error:
            self._findings.append(Diagnostic("bad-fill", str(error), place))
            self._failed.add(name)
            self.parameters.pop(name, None)
            return
        self._failed.discard(name)
        if op.type in _TO_HOST:
            device = None
        make = _checked_make(filled, name, place)
        self.parameters[name] = Parameter(
            name, filled.dtype, filled.shape, make, filled.scale, filled.zero_point, device
        )

    def _keep(self, index: int, operator: _Operator) -> None:
        op = operator.light
        missing = [name for name in op.input if name not in self._made]
        if missing and op.type != "Load":
            reason = f"the operator reads {missing[0]!r}, which no operator of the init net writes"
            self._strange.append(Diagnostic("not-an-init-net", reason, Location(self.name, index, op.type, op.name)))
        self.rest.append(OpView(operator.whole(), index))
        self._read_by_rest.update(op.input)
        self._written_by_rest.update(op.output)

    def all_findings(self) -> tuple[Diagnostic, ...]:
        """In net order; of the operators that read what nothing makes, the first."""
        found = list(self._findings)
        if self._strange:
            first = self._strange[0]
            more = f" ({len(self._strange) - 1} more operators do the same)" if len(self._strange) > 1 else ""
            hint = "an init net only writes parameters: exchange the files if this is a predict net"
            found.append(dataclasses.replace(first, reason=first.reason + more, hint=hint))
        return tuple(sorted(found, key=lambda finding: finding.location.index or 0))


def _filled(operator: _Operator, index: int, inputs: tuple[Parameter, ...], device: DeviceOption | None) -> Filled:
    op = operator.light
    if op.type in FILLS:
        seeded = device is not None and device.HasField("random_seed")
        seed = (device.random_seed,) if seeded and device is not None else (_DEFAULT_SEED, index)
        return FILLS[op.type](FillOp(Args(op.arg), operator.values, inputs, seed))
    if len(inputs) != 1:
        raise FillError(f"one input is expected, not {len(inputs)}")
    source = inputs[0]
    if op.type in _COPIES:
        return Filled(source.dtype, source.shape, source.load, source.scale, source.zero_point)
    return _CASTS[op.type](Args(op.arg), source)


def _checked_make(filled: Filled, name: str, place: Location) -> Callable[[], Any]:
    """Values in their shape; decoding is where damage inside of a large payload shows."""

    def make() -> Any:
        try:
            values = filled.make()
        except NetFormatError as error:
            raise NetFormatError(f"{place}: {error.reason}", error.source) from None
        if values.size != int(np.prod(filled.shape, dtype=object)):
            raise NetFormatError(f"{place}: {name!r} has {values.size} values for the shape {list(filled.shape)}")
        return values.reshape(filled.shape)

    return make


def _cast(args: Args, source: Parameter) -> Filled:
    raw = args.raw("to")
    if raw is not None and raw.HasField("s"):
        name = args.text("to").upper()
        number = TensorProto.DataType.Value(name) if name in TensorProto.DataType.keys() else -1  # noqa: SIM118 - no dict
    else:
        number = args.integer("to")
    dtype = DTYPES.get(number)
    if dtype is None or source.dtype.kind == "O" or source.scale is not None:
        raise FillError(f"cannot cast {source.dtype.name} to type {number}")
    return _as_text(source) if dtype.kind == "O" else _as(source, dtype)


def _as_text(source: Parameter) -> Filled:
    """Numbers as C's to_string writes them: floats with six decimals."""
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
                values = values.astype(np.int64)  # cut off first, then wrapped, as C does
            return values.astype(dtype)

    return Filled(dtype, source.shape, make)


_CASTS: Final = MappingProxyType({"Cast": _cast, "FloatToHalf": _float_to_half, "HalfToFloat": _half_to_float})
FOLDED: Final = frozenset({*FILLS, *_COPIES, *_CASTS})  # the types that make constants of constants

"""Read init nets as parameters: fold the constant operators, and keep those that must be run or converted."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

from google.protobuf.message import DecodeError, Message

from caffe2_bridge import wire
from caffe2_bridge.diagnostics import Diagnostic, Location, NetFormatError
from caffe2_bridge.diagnostics.short_repr import short_repr
from caffe2_bridge.init.casts import CASTS, sum_of
from caffe2_bridge.init.fills import FILLS, RANDOM, Filled, FillError, FillOp, Values
from caffe2_bridge.netdef.names import require_text, require_text_in_operator
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.netdef.views import Args, ArgumentError, OpView, as_net_def
from caffe2_bridge.proto.caffe2_pb2 import Argument, DeviceOption, NetDef, OperatorDef
from caffe2_bridge.wire.messages import parse_message

Chunks = Iterator[bytes | memoryview]

MESSAGE_LIMIT: Final = 2**31 - 1  # bytes; protobuf's
_DEFAULT_SEED: Final = 2017
_VALUES: Final = "values"
_COPIES: Final = frozenset({
    "Copy", "CopyCPUToGPU", "CopyGPUToCPU", "CopyFromCPUInput", "EnsureCPUOutput", "EnsureDense", "StopGradient",
})  # fmt: skip
_TO_HOST: Final = frozenset({"CopyGPUToCPU", "EnsureCPUOutput"})
_SUM: Final = "Sum"
FOLDED: Final = frozenset({*FILLS, *_COPIES, *CASTS, _SUM})  # the operator types that compute constants of constants
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
        external_outputs: the external outputs that the net declares.
        read: the blobs that its operators read.
        device: the device option of the net, None if it has none.
        random: the parameters that are random numbers, with the type of the operator that draws them.
    """

    parameters: Mapping[str, Parameter] = field(default_factory=lambda: _EMPTY)
    rest: tuple[OpView, ...] = ()
    findings: tuple[Diagnostic, ...] = ()
    placeholders: Mapping[str, Parameter] = field(default_factory=lambda: _EMPTY)
    serialized: Callable[[], Chunks] = field(
        default=lambda: iter((NetDef(name="init").SerializeToString(),)), repr=False
    )
    external_outputs: tuple[str, ...] = ()
    read: frozenset[str] = frozenset()
    device: DeviceOption | None = None
    random: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @cached_property
    def net(self) -> NetDef:
        """The net as a protobuf, parsed on first use. Raises NetFormatError beyond protobuf's limit of 2 GB."""
        if isinstance(self.serialized, _Stored):
            _require_message(len(self.serialized.span))
        data = b"".join(self.serialized())
        _require_message(len(data))
        return as_net_def(data, "init net")

    def __repr__(self) -> str:
        return short_repr(
            self, parameters=tuple(self.parameters), placeholders=tuple(self.placeholders), operators=len(self.rest),
            findings=len(self.findings),
        )  # fmt: skip

    def __reduce__(self) -> tuple[Any, ...]:
        # The bytes that a save writes: values are decoded from them as before, one at a time.
        data = b"".join(self.serialized())
        return _restored, (data, tuple(self.parameters), dict(self.placeholders), self.findings)

    @property
    def stored_bytes(self) -> int:
        """The bytes of the net where it is stored; of one that is not, those of the values of its parameters."""
        if isinstance(self.serialized, _Stored):
            return len(self.serialized.span)
        return sum(parameter.size * parameter.dtype.itemsize for parameter in self.parameters.values())

    def operators(self) -> Iterator[OperatorDef]:
        """Yield the operators of the net, in order; of one that is stored, one at a time is in memory."""
        if isinstance(self.serialized, _Stored):
            _, operators = _from_span(self.serialized.span)
            return (operator.whole() for operator in operators)
        return iter(self.net.op)

    def stored_operators(self) -> tuple[NetDef, Iterator[tuple[OperatorDef, Values | None]]] | None:
        """Return the net without its operators, and these in order, read one at a time from where the net is stored.

        The argument ``values`` of an operator is apart from it. None for a net that is not stored as a whole.
        """
        if not isinstance(self.serialized, _Stored):
            return None
        header, operators = _from_span(self.serialized.span)
        return header, ((operator.light, operator.values) for operator in operators)

    @cached_property
    def replaceable(self) -> frozenset[str]:
        """The blobs that may be inputs instead: parameters, and what one operator makes that no other one reads."""
        read = {name for op in self.rest for name in op.inputs}
        return frozenset((*self.parameters, *(op.outputs[0] for op in self.rest if _makes_one(op, read))))

    def with_inputs(self, names: Iterable[str]) -> InitNet:
        """Return the init net with the fills of these blobs, which are inputs, as placeholders."""
        wanted = self.replaceable.intersection(names)
        if not wanted:
            return self
        rest = tuple(op for op in self.rest if not (op.outputs and wanted.issuperset(op.outputs)))
        names = dict.fromkeys(name for name in names if name in self.parameters)
        kept = {name: p for name, p in self.parameters.items() if name not in names}
        # A fill without elements carries no shape: it only makes the blob exist.
        known = {name: self.parameters[name] for name in names if self.parameters[name].shape != (0,)}
        placeholders = {**self.placeholders, **known}
        return dataclasses.replace(
            self, parameters=MappingProxyType(kept), rest=rest, placeholders=MappingProxyType(placeholders)
        )


def _makes_one(op: OpView, read: Collection[str]) -> bool:
    """Whether an operator makes nothing but one blob, which is not among those that are read."""
    return len(op.outputs) == 1 and op.outputs[0] not in read


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
        serialized: Callable[[], Chunks] = _Stored(span)
    else:
        proto = as_net_def(net, "init net")
        header, operators = proto, map(_Operator.of_proto, proto.op)

        def serialized() -> Chunks:
            yield proto.SerializeToString()

    reader = _Reader(header, dict(known))
    for index, operator in enumerate(operators):
        reader.add(index, operator)
    return InitNet(
        MappingProxyType(reader.parameters),
        tuple(reader.rest),
        reader.all_findings(),
        random=MappingProxyType(reader.random),
        serialized=serialized,
        external_outputs=tuple(dict.fromkeys(header.external_output)),
        read=frozenset(reader.read),
        device=reader.device,
    )


def _restored(
    data: bytes, names: Iterable[str], placeholders: Mapping[str, Parameter], findings: tuple[Diagnostic, ...]
) -> InitNet:
    """Return the init net of bytes and of what they do not say: which fills are parameters, what was found before."""
    init = read_init_net(data)
    parameters = MappingProxyType({name: init.parameters[name] for name in names})
    return dataclasses.replace(
        init, parameters=parameters, placeholders=MappingProxyType(placeholders), findings=findings
    )


def _require_message(size: int) -> None:
    if size > MESSAGE_LIMIT:
        reason = f"the init net has {size:,} bytes, and protobuf holds at most {MESSAGE_LIMIT:,} in one message"
        raise NetFormatError(f"{reason} (read its parameters one by one: model.params, or model.init.parameters)")


@dataclass(frozen=True, slots=True)
class _Stored:
    """Yields the bytes of a net that is stored in a span."""

    span: wire.Span

    def __call__(self) -> Chunks:
        return self.span.pieces()


@dataclass(frozen=True, slots=True)
class _Operator:
    """An operator, the values of its ``values`` argument, and a function that returns the complete operator.

    ``light`` lacks that argument where the operator is read from a file.
    """

    light: OperatorDef
    values: Values | None
    whole: Callable[[], OperatorDef]

    @classmethod
    def of_proto(cls, op: OperatorDef) -> _Operator:
        values = [arg for arg in op.arg if arg.name == _VALUES]
        if not values:
            return cls(op, None, lambda: op)
        last = values[-1]
        return cls(op, Values(lambda: wire.Span.of(last.SerializeToString()), last), lambda: op)

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
        return parse_message(OperatorDef, data)
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
        self.read: set[str] = set()
        self.random: dict[str, str] = {}
        self._defined = set(known)
        self._failed: set[str] = set()
        self._read_by_rest: set[str] = set()
        self._written_by_rest: set[str] = set()

    def add(self, index: int, operator: _Operator) -> None:
        op = operator.light
        require_text_in_operator(op, index)
        self.read.update(op.input)
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
            and op.output[0] not in self._read_by_rest
            and op.output[0] not in self._written_by_rest
            and all(name in self.parameters and name not in self._written_by_rest for name in op.input)
        )

    def _fold(self, index: int, operator: _Operator) -> None:
        op = operator.light
        name = op.output[0]
        location = Location(self.name, index, op.type, op.name)
        inputs = tuple(self.parameters[n] for n in op.input)
        try:
            self.parameters[name] = _folded(operator, index, inputs, self.device, location)
        except (FillError, ArgumentError, NetFormatError) as error:
            self._diagnostics.append(Diagnostic("bad-fill", str(error), location))
            self._failed.add(name)
            self.parameters.pop(name, None)
            return
        self._failed.discard(name)
        drawn = op.type if op.type in RANDOM else next((self.random[n] for n in op.input if n in self.random), None)
        self.random.pop(name, None)
        if drawn is not None:
            self.random[name] = drawn

    def _keep(self, index: int, operator: _Operator) -> None:
        op = operator.light
        missing = [name for name in op.input if name not in self._defined]
        if missing and op.type != "Load":
            reason = f"the operator reads {missing[0]!r}, which no operator of the init net writes"
            self._undefined.append(Diagnostic("not-an-init-net", reason, Location(self.name, index, op.type, op.name)))
        self.rest.append(OpView(operator.whole(), index))
        self._read_by_rest.update(op.input)
        self._written_by_rest.update(op.output)
        for name in op.output:
            self.random.pop(name, None)

    def all_findings(self) -> tuple[Diagnostic, ...]:
        """Return all diagnostics in net order; of the operators that read undefined blobs, the first only."""
        found = list(self._diagnostics)
        if self._undefined:
            first = self._undefined[0]
            more = f" ({len(self._undefined) - 1} more operators do the same)" if len(self._undefined) > 1 else ""
            hint = "an init net only writes parameters: exchange the files if this is a predict net"
            found.append(dataclasses.replace(first, reason=first.reason + more, hint=hint))
        return tuple(sorted(found, key=lambda diagnostic: diagnostic.location.index or 0))


def fold(op: OpView, inputs: tuple[Parameter, ...], device: DeviceOption | None) -> Parameter:
    """Return the output of an operator of a type in ``FOLDED``; ``device`` is that of the net.

    Raises FillError, ArgumentError or NetFormatError if Caffe2 would refuse the operator.
    """
    location = Location("init", op.index, op.type, op.name)
    return _folded(_Operator.of_proto(op.proto), op.index, inputs, device, location)


def _folded(
    operator: _Operator, index: int, inputs: tuple[Parameter, ...], device: DeviceOption | None, location: Location
) -> Parameter:
    op = operator.light
    device = op.device_option if op.HasField("device_option") else device
    filled = _filled(operator, index, inputs, device)
    if op.type in _TO_HOST:
        device = None
    name = op.output[0]
    make = _checked_make(filled, name, location)
    return Parameter(name, filled.dtype, filled.shape, make, filled.scale, filled.zero_point, device)


def _filled(operator: _Operator, index: int, inputs: tuple[Parameter, ...], device: DeviceOption | None) -> Filled:
    op = operator.light
    if op.type in FILLS:
        seeded = device is not None and device.HasField("random_seed")
        seed = (device.random_seed,) if seeded and device is not None else (_DEFAULT_SEED, index)
        return FILLS[op.type](FillOp(Args(arg for arg in op.arg if arg.name != _VALUES), operator.values, inputs, seed))
    if op.type == _SUM:
        return sum_of(inputs)
    if len(inputs) != 1:
        raise FillError(f"the operator must have one input, not {len(inputs)}")
    source = inputs[0]
    if op.type in _COPIES:
        return Filled(source.dtype, source.shape, source.load, source.scale, source.zero_point)
    return CASTS[op.type](Args(op.arg), source)


def _checked_make(filled: Filled, name: str, location: Location) -> Callable[[], Any]:
    """Decode the values, check their number and reshape them; damage in a large payload is found only here."""

    def make() -> Any:
        try:
            values = filled.make()
        except NetFormatError as error:
            raise NetFormatError(f"{location}: {error.reason}", error.source) from None
        if values.size != math.prod(filled.shape):
            raise NetFormatError(f"{location}: blob {name!r} has {values.size} values for shape {list(filled.shape)}")
        return values.reshape(filled.shape)

    return make

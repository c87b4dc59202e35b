"""A net that runs again and again on one device: converted once for each kind of input, then only fed."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from caffe2_backend.runtime.conversion import Lowered, lower, needs_sizes
from caffe2_backend.runtime.device_names import CPU
from caffe2_backend.runtime.results import Blobs, Later, Results, value_of
from caffe2_backend.runtime.session_options import DEFAULTS, Choices
from caffe2_backend.runtime.sessions import Session
from caffe2_backend.runtime.specialization import Variant, as_parameter
from caffe2_backend.runtime.values import DeviceTensor, Int8Tensor, NoBlobError, Opaque, Tensor, Value
from caffe2_bridge.diagnostics import BridgeError, ConversionError, Location, RunError
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.ssa.effects import BRANCHES, NetEffects, analyse

if TYPE_CHECKING:
    from caffe2_frontend.interop.types import TensorInfo

# Operators whose output is an object for others to work in.
_SCOPES: Final = frozenset({"CreateScope"})
# Operators that list as outputs what their bodies write; what others leave behind, a copy makes known outside.
_LISTING: Final = BRANCHES | {"While"}
_OUTSIDE: Final = "outside"


class Program:
    """A net on one device.

    Blobs that exist when the net first runs and that ``constants`` names are converted as constants; one that changes
    later is an input from then on. A second run over inputs of the same element types and ranks converts nothing and
    makes no session; where the conversion needs sizes, that holds for the same shapes.

    Args:
        net: the net; it is not to be changed any more.
        device: where it runs.
        choices: how.
        keep: blobs that every run must give, beside those that the net declares as outputs.
        init: parameters that are constants from the start; none of them are looked for among the blobs.
        state: whether every run gives the blobs that the net reads and overwrites, which the next run needs.
    """

    def __init__(
        self,
        net: NetDef,
        device: str = CPU,
        choices: Choices = DEFAULTS,
        keep: Collection[str] = (),
        *,
        init: InitNet | None = None,
        state: bool = True,
    ) -> None:
        view = NetView(net)
        effects = analyse(net, Location(view.name), [])
        self.net = net
        self.name = view.name
        self.device = device
        self._choices = choices
        self._given_init = init or InitNet()
        made = {*self._given_init.parameters, *(name for op in self._given_init.rest for name in op.outputs)}
        self.made = frozenset(made)
        scopes = {name for op in view.ops if op.type in _SCOPES for name in op.outputs}
        self._made_scopes = {op.outputs[0]: Opaque(op.proto) for op in view.ops if op.type in _SCOPES and op.outputs}
        own = scopes | made
        self.needs = tuple(name for name in effects.exposed if name not in own)
        self.may_need = tuple(
            name for name in {**effects.soft, **effects.through} if name not in effects.exposed and name not in own
        )
        self.writes = tuple(name for name in effects.may if name not in scopes)
        written = frozenset(self.writes)
        # What the net reads and overwrites is there for its next run.
        self.state = tuple(name for name in (*self.needs, *self.may_need) if name in written) if state else ()
        known = written if state else {*written, *self.needs, *made}
        declared = [name for name in view.external_outputs if name in known]
        read = {name for op in effects.ops for name in (*op.reads, *op.soft)}
        self.required = tuple(dict.fromkeys([*declared, *(name for name in keep if name in written)]))
        self._undeclared = _undeclared(view, effects)
        # Without declared outputs, what nobody reads is what the net is there for.
        loose = [] if declared else [n for op in view.ops for n in op.outputs if n in written and n not in read]
        self._optional = tuple(name for name in dict.fromkeys(loose) if name not in self.required)
        self._written = written
        self._random = False
        self._sized = False
        self._baked: dict[str, Value] | None = None
        self._optional_reads = frozenset(self.may_need)
        self._free: tuple[str, ...] = ()
        self._variants: dict[Any, Variant] = {}
        self._single: dict[Any, tuple[Session, Lowered]] = {}
        self._unavailable: set[str] = set()
        self._lock = threading.RLock()
        self.conversions = 0

    def run_given(self, given: Mapping[str, Value], constants: Mapping[str, Value] = MappingProxyType({})) -> Results:
        """Run once.

        Args:
            given: the inputs, as :meth:`collect` found them.
            constants: blobs that are as good as constant: those of them that the net reads and does not write become
                part of the converted net.

        Raises:
            ConversionError: the net cannot be converted.
            RunError: the run failed.
        """
        variant = self._variant_for(given, constants)
        values = variant.run(given)
        later = dict.fromkeys(variant.later, Later(partial(self.compute, given=given))) if variant.later else {}
        return Results(values, later, self._made_scopes)

    def run_plain(self, given: Mapping[str, Value]) -> dict[str, Tensor]:
        """What a run gives at once, and nothing else."""
        return self._variant_for(given, {}).run(given)

    def run_prepared(self, inputs: Mapping[str, Any]) -> dict[str, Tensor] | None:
        """As :meth:`run_plain`, over arrays of kinds that it ran over before; None where they are of others."""
        given: dict[str, Value] = {}
        key: list[Any] = []
        for name in self._free:
            value = inputs.get(name)
            if type(value) is not np.ndarray:
                return None
            given[name] = value
            dtype = value.dtype
            key += (dtype.char, dtype.byteorder, value.ndim)
        variant = self._variants.get(tuple(key))
        return None if variant is None or not variant.arrays else variant.run(given)

    def _variant_for(self, given: Mapping[str, Value], constants: Mapping[str, Value]) -> Variant:
        if self._baked is None:
            self._choose_constants(given, constants)
        key = self._key(given)
        variant = self._variants.get(key)
        if variant is None:
            with self._lock:
                variant = self._variants.get(key) or self._compile(key, given)
        return variant

    def want(self, name: str) -> None:
        """From now on, every run gives this blob."""
        with self._lock:
            if name in self._written and name not in self.required and name not in self._unavailable:
                self.required = (*self.required, name)
                self._optional = tuple(other for other in self._optional if other != name)
                self._variants.clear()

    def compute(self, name: str, given: Mapping[str, Value]) -> Tensor:
        """One blob of a run over inputs that were kept. Raises RunError where it is no tensor."""
        with self._lock:
            if name in self._unavailable:
                raise RunError(f"blob {name!r} of net {self.name!r} has no value that is a tensor")
            key = (name, self._key(given))
            if key not in self._single:
                try:
                    lowered = self._lowered(given, [name])
                except BridgeError as error:
                    self._unavailable.add(name)
                    raise RunError(
                        f"blob {name!r} of net {self.name!r} has no value that is a tensor: {error}"
                    ) from error
                self._single[key] = (lowered.session(self.device, self._choices), lowered)
            session, lowered = self._single[key]
        self.want(name)
        return self._variant(session, lowered, (), given).run(given)[name]

    # What the net reads

    def collect(self, blobs: Blobs) -> dict[str, Value]:
        """The blobs that the net reads. Raises NoBlobError where one is missing that it surely reads."""
        get = blobs.get
        if self._baked:
            changed = [name for name, value in self._baked.items() if get(name) is not value]
            if changed:
                self._give_up_constants(changed)
        given: dict[str, Value] = dict(self._baked or ())
        for name in self.needs if not given else self._free:
            if name in self._optional_reads:
                continue
            value = get(name)
            if value is None:
                raise NoBlobError(f"{self._reader(name)} reads blob {name!r}, which is not in the workspace")
            given[name] = value.compute(name) if type(value) is Later else value  # type: ignore[assignment] # see type()
        for name in self.may_need:
            with suppress(RunError):  # a branch that did not run left it without a value
                value = value_of(name, blobs)
                if value is not None and not isinstance(value, bytes):
                    given[name] = value
        return given

    def _reader(self, name: str) -> Location | str:
        for op in NetView(self.net).ops:
            if name in op.inputs:
                return Location(self.name, op.index, op.type, op.name)
        return f"net {self.name!r}"

    def _choose_constants(self, given: Mapping[str, Value], constants: Mapping[str, Value]) -> None:
        with self._lock:
            if self._baked is None:
                chosen = {
                    name: value
                    for name, value in given.items()
                    if constants.get(name) is value and name not in self._written
                }
                self._free = tuple(name for name in (*self.needs, *self.may_need) if name not in chosen)
                self._baked = chosen

    def _give_up_constants(self, names: Collection[str]) -> None:
        """Blobs that changed are inputs from now on."""
        with self._lock:
            self._baked = {name: value for name, value in (self._baked or {}).items() if name not in names}
            self._free = tuple(name for name in (*self.needs, *self.may_need) if name not in self._baked)
            self._variants.clear()
            self._single.clear()

    def _key(self, given: Mapping[str, Value]) -> tuple[Any, ...]:
        parts: list[Any] = []
        for name in self._free:
            value = given.get(name)
            if isinstance(value, Int8Tensor):
                data = value.data
                parts += (
                    Int8Tensor,
                    data.dtype,
                    data.shape if self._sized else data.ndim,
                    value.scale,
                    value.zero_point,
                )
            elif isinstance(value, np.ndarray):
                dtype = value.dtype  # its hash takes longer than those of its parts
                parts += (dtype.char, dtype.byteorder, value.shape if self._sized else value.ndim)
            elif isinstance(value, DeviceTensor):
                parts += (value.device, value.dtype, value.shape if self._sized else value.ndim)
            else:
                parts.append(value.maker.type if isinstance(value, Opaque) else None)
        return tuple(parts)

    def _infos(self, given: Mapping[str, Value]) -> dict[str, TensorInfo]:
        from caffe2_frontend.interop.types import tensor_info

        infos = {}
        for name in self._free:
            value = given.get(name)
            if value is None or isinstance(value, Opaque):
                continue
            if isinstance(value, bytes):
                raise RunError(f"{self._reader(name)} reads blob {name!r}, which is a text and no tensor")
            plain = value.data if isinstance(value, Int8Tensor) else value
            shape = list(plain.shape) if self._sized else [None] * plain.ndim
            how = (value.scale, value.zero_point) if isinstance(value, Int8Tensor) else None
            infos[name] = tensor_info(name, (plain.dtype if plain.dtype != object else str, shape, how))
        return infos

    # Conversion

    def _compile(self, key: tuple[Any, ...], given: Mapping[str, Value]) -> Variant:
        required = list(dict.fromkeys([*self.required, *(name for name in self.state if name in given)]))
        optional = [name for name in self._optional if name not in required]
        try:
            lowered = self._lowered(given, [*required, *optional])
        except ConversionError:
            if not optional:
                raise
            lowered = self._without_what_fails(given, required, optional)
        if lowered.random and not self._random:
            # A second run would draw other numbers: every blob comes from the one run.
            self._random = True
            self._optional = tuple(name for name in self.writes if name not in self.required)
            return self._compile(key, given)
        session = lowered.session(self.device, self._choices) if lowered.outputs else None
        later = () if self._random else tuple(name for name in self.writes if name not in lowered.outputs)
        variant = self._variant(session, lowered, later, given)
        if self._sized:
            key = self._key(given)
        self._variants[key] = variant
        return variant

    def _variant(
        self, session: Session | None, lowered: Lowered, later: tuple[str, ...], given: Mapping[str, Value]
    ) -> Variant:
        inputs = session.inputs if session is not None else ()
        names = list(session.outputs) if session is not None else []
        plain = self._is_plain()
        arrays = plain and not lowered.quantized and all(_is_numbers(given[name]) for name in inputs)
        return Variant(session, inputs, lowered.outputs, lowered.quantized, later, plain, arrays, names)

    def _is_plain(self) -> bool:
        return self.device == CPU and self._choices.stand_in.get(CPU, CPU) == CPU

    def _without_what_fails(self, given: Mapping[str, Value], required: list[str], optional: list[str]) -> Lowered:
        """The net with those of the optional outputs that are tensors; the others are not asked for again."""
        good = []
        for name in optional:
            with suppress(ConversionError):
                self._lowered(given, [*required, name])
                good.append(name)
        lowered = self._lowered(given, [*required, *good])
        self._unavailable.update(name for name in optional if name not in good)
        self._optional = tuple(good)
        return lowered

    def _lowered(self, given: Mapping[str, Value], outputs: list[str]) -> Lowered:
        self.conversions += 1
        net, asked = self._with_inputs(given, outputs)
        try:
            lowered = lower(net, self._init(), self._infos(given), asked)
        except ConversionError as error:
            if self._sized or not needs_sizes(error):
                raise
            self._sized = True
            try:
                lowered = lower(net, self._init(), self._infos(given), asked)
            except ConversionError:
                self._sized = False
                raise
        names = dict(zip(asked, outputs, strict=True))
        quantized = {names[name]: how for name, how in lowered.quantized.items()}
        return dataclasses.replace(lowered, outputs=tuple(outputs), quantized=quantized)

    def _init(self) -> InitNet:
        init = self._given_init
        if not self._baked:
            return init
        baked = {name: as_parameter(name, value) for name, value in self._baked.items()}
        return dataclasses.replace(init, parameters={**init.parameters, **baked})

    def _with_inputs(self, given: Mapping[str, Value], outputs: list[str]) -> tuple[NetDef, list[str]]:
        """The net that declares what is there and what is asked for, and the names by which it gives that.

        Objects come with the operators that made them.
        """
        makers: list[OperatorDef] = [value.maker for value in given.values() if isinstance(value, Opaque)]
        net = NetDef()
        net.CopyFrom(self.net)
        asked = list(outputs)
        for position, name in enumerate(outputs):
            for op in (net.op[index] for index in self._undeclared.get(name, ())):
                if op.type in _LISTING:
                    op.output.append(name)
                else:
                    asked[position] = f"{name}/{_OUTSIDE}"
        for old, new in zip(outputs, asked, strict=True):
            if old != new:
                net.op.append(OperatorDef(type="Copy", input=[old], output=[new]))
        if makers:
            ops = [*makers, *net.op]
            del net.op[:]
            net.op.extend(ops)
        del net.external_input[:]
        inputs = [name for name, value in given.items() if not isinstance(value, Opaque)]
        net.external_input.extend(dict.fromkeys([*inputs, *self._given_init.parameters, *self.made]))
        return net, asked


def _is_numbers(value: Value) -> bool:
    return isinstance(value, np.ndarray) and value.dtype != object


def _undeclared(view: NetView, effects: NetEffects) -> dict[str, list[int]]:
    """The operators whose bodies write a blob that no operator of the net lists: real Caffe2 leaves it behind too."""
    listed = {name for op in view.ops for name in op.outputs}
    found: dict[str, list[int]] = {}
    for op, effect in zip(view.ops, effects.ops, strict=True):
        for name in dict.fromkeys((*effect.writes, *effect.updates, *effect.merges)):
            if name not in listed:
                found.setdefault(name, []).append(op.index)
    return found

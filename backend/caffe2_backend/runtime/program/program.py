"""Programs: a net on one device, converted once for each kind of inputs, then only fed."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Final

import numpy as np

from caffe2_backend.runtime.blobs.burst import ONCE, Burst
from caffe2_backend.runtime.blobs.results import Blobs, DeferredBlob, Results, value_of
from caffe2_backend.runtime.devices.device_names import CPU, WEBGPU
from caffe2_backend.runtime.program.compiler import Compiler
from caffe2_backend.runtime.program.conversion import Lowered
from caffe2_backend.runtime.program.interface import NetInterface
from caffe2_backend.runtime.program.kind import Inputs, Kind, Last
from caffe2_backend.runtime.program.large_inputs import LargeInputs
from caffe2_backend.runtime.program.late_blobs import LateBlobs
from caffe2_backend.runtime.program.operand_checks import OperandChecks
from caffe2_backend.runtime.program.origin import Origin
from caffe2_backend.runtime.program.signature import Signature, signature_of
from caffe2_backend.runtime.program.states.resident import large_states
from caffe2_backend.runtime.program.tensor_outputs import TensorOutputs
from caffe2_backend.runtime.program.variant import Variant
from caffe2_backend.runtime.program.variant_builder import VariantBuilder
from caffe2_backend.runtime.program.zero_states import retype_zeros, zero_states
from caffe2_backend.runtime.sessions.session_options import DEFAULTS, SessionOptions
from caffe2_backend.runtime.values import DeviceTensor, Int8Tensor, Tensor, Value
from caffe2_bridge.diagnostics import BridgeError, Location, RunError
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.proto.caffe2_pb2 import NetDef

# How many blobs are returned by all further runs as soon as they are asked for after one.
_FEW: Final = 2


class Program:
    """A net on one device.

    Blobs that exist when the net first runs and that ``constants`` contains are converted to constants; if one changes
    later, it becomes an input. A second run with inputs of the same element types and ranks neither converts the net
    nor makes a session; if the conversion needs sizes, this holds for the same shapes. A training net is converted
    once more when sizes of an input first change.

    Args:
        net: the net; it must not be changed any more.
        device: where it runs.
        options: of its sessions.
        keep: blobs that every run must return, in addition to the declared outputs.
        init: parameters that are constants from the start; they are not looked up among the blobs.
        state: whether it runs on a workspace: every run returns the blobs that the net reads and overwrites, which the
            next run needs, others that it writes are computed when they are asked for, and operands are checked.
        origin: of the net, if it is a part or a body of another one, for the locations in errors.
        feeds: for a net that makes many steps, the outputs by the inputs that they are in the next step.
        updated: of a part of a net, the blobs that other parts may update in place.
    """

    def __init__(
        self,
        net: NetDef,
        device: str = CPU,
        options: SessionOptions = DEFAULTS,
        keep: Collection[str] = (),
        *,
        init: InitNet | None = None,
        state: bool = True,
        origin: Origin | None = None,
        feeds: Mapping[str, str] = MappingProxyType({}),
        updated: Collection[str] = (),
    ) -> None:
        given_init = init or InitNet()
        here = origin or Origin(Location(NetView(net).name))
        checked = net if state else NetDef()
        self._checks = OperandChecks(checked, here)
        self._results_checks = OperandChecks(checked if options.check_computed else NetDef(), here, computed=True)
        keep = {*keep, *self._results_checks.computed}
        self.interface = NetInterface.of(net, given_init, keep=keep, state=state, updated=updated)
        self.name = NetView(net).name
        self.device = device
        recorded = device not in (CPU, WEBGPU) and options.cuda_graphs
        self._compiler = Compiler(
            net, given_init, self.interface, origin, steps=bool(feeds), fixed=recorded,
            recurrent="auto" if device == CPU else "unrolled" if recorded else "gpu",
        )  # fmt: skip
        self._zero_states = zero_states(net)
        pairs = {**{name: name for name in self.interface.state}, **feeds}
        self._builder = VariantBuilder(self.interface, device, options, pairs)
        self._large = LargeInputs(net)
        self._required = self.interface.required
        self._optional = self.interface.optional
        self._written = frozenset(self.interface.writes)
        self._in_workspace = state
        # Whether references to inputs are kept between runs: no run overwrites values of a net without tables.
        self._keeps = state and not self.interface.tables
        self._complete = False  # whether every run returns every blob
        self._resident = False
        self._constants: dict[str, Value] | None = None  # None until the first run chooses them
        self._free: tuple[str, ...] = ()
        self._variants: dict[Signature, Variant] = {}
        # For blobs that are asked for after a run: what was converted, and variants that return them.
        self._lowered: dict[Signature, Lowered] = {}
        self._extended: dict[Signature, Variant] = {}
        self._last: Last | None = None
        self._known_sizes: dict[str, tuple[int, ...]] = {}
        self._tensors = TensorOutputs()
        self._runs = 0
        self._asked: dict[str, int] = {}  # the blobs that were computed after a run, and the first of these runs
        self._lock = threading.RLock()

    @property
    def conversions(self) -> int:
        """How many conversions there were so far."""
        return self._compiler.conversions

    # A run: collect the inputs, select the variant, feed it.

    def recognize(self, find: Callable[[str], object]) -> Inputs | None:
        """Return the inputs of a run, of which ``find`` gives each; None if they are of another kind than the last.

        The deciding door of all runs but the first of a kind: what it returns is not looked at again.
        """
        last = self._last
        return None if last is None else last.recognize(find)

    def collect(self, blobs: Blobs, made: Collection[str] = ()) -> dict[str, Value]:
        """Return the blobs that the net reads, but those that are ``made`` between this and the run.

        Raises NoBlobError if one is missing that it reads in any case.
        """
        last = self._last
        known = None if made or last is None else last.recognize(blobs.get)
        if known is not None:
            return known
        changed = [name for name, value in (self._constants or {}).items() if blobs.get(name) is not value]
        if changed:
            self._demote_constants(changed)
        given: dict[str, Value] = dict(self._constants or ())
        for name in self.interface.needs:
            if name in given or name in made:
                continue
            value = blobs.get(name)
            if value is None:
                raise self._compiler.missing(name)
            given[name] = value.compute(name) if isinstance(value, DeferredBlob) else value
        for name in self.interface.may_need:
            if name in made:
                continue
            with suppress(RunError):  # the branch that would have written it did not run
                found = value_of(name, blobs)
                if found is not None and not isinstance(found, bytes):
                    given[name] = found
        return given

    @property
    def updates_in_place(self) -> bool:
        """Whether a run may overwrite values of states: then nobody else may read them during it."""
        return self._resident

    def run(
        self,
        given: Mapping[str, Value],
        constants: Mapping[str, Value] = MappingProxyType({}),
        burst: Burst = ONCE,
        held: int = 0,
    ) -> Results:
        """Run once, or a burst of steps.

        Args:
            given: the inputs, from :meth:`collect`.
            constants: blobs that rarely change: those that the net reads and does not write become constants of the
                converted net.
            burst: the steps, of which the results of the last are returned.
            held: how many references the caller holds to each value in ``given``, itself included: states to which
                nothing else refers are updated in place. 0 if values must not be overwritten.

        Raises:
            ConversionError: the net cannot be converted.
            RunError: the run failed.
        """
        if isinstance(given, Inputs):
            kind = given.kind
            self._checks.require(given, shapes=not kind.whole)
        else:
            self._checks.require(given)
            given, kind = self._first_of_kind(given, constants)
        variant = kind.variant
        if self._results_checks.computed:
            burst = ONCE
        values, given = variant.step(given, burst, held)
        self._results_checks.require_computed(given, values)
        last = self._last
        if self._keeps and last is not None and last.kind is kind and (kind.states or given is not last.inputs):
            self._last = last.after(given, values)
        if not variant.deferred:
            return Results(values, {}, self.interface.scopes)
        self._runs += 1
        deferred = dict.fromkeys(variant.deferred, DeferredBlob(LateBlobs(self._compute, self._ask, given, self._runs)))
        return Results(values, deferred, self.interface.scopes)

    def _first_of_kind(
        self, given: Mapping[str, Value], constants: Mapping[str, Value]
    ) -> tuple[Mapping[str, Value], Kind]:
        """Return the inputs of a run as its variant takes them, and their kind, which the next run recognizes."""
        given = retype_zeros(given, self._zero_states)
        last = self._last
        known = None if last is None else last.recognize(given.get)
        if known is not None:
            return known, known.kind
        variant = self._variant_for(given, constants)
        chosen, names, sized = self._constants or {}, self._free, self._compiler.sized
        kind = Kind(
            variant, (*chosen, *names), given, constants=chosen, sized=sized, pairs=self._builder.pairs
        )  # fmt: skip
        # Else another thread has changed what is constant or known meanwhile.
        if self._variants.get(signature_of(names, given, sized=sized)) is variant:
            self._last = kind.last(given, keep=self._keeps)
        return given, kind

    def _want(self, *names: str) -> None:
        """Let every run from now on return these blobs."""
        with self._lock:
            new = self._written.intersection(names).difference(self._required, self._tensors.refused)
            if new:
                self._required = (*self._required, *(name for name in self.interface.writes if name in new))
                self._optional = tuple(other for other in self._optional if other not in new)
                self._variants.clear()
                self._last = None

    def _ask(self, name: str, run: int) -> bool:
        """Note that a blob is asked for after a run, and return whether it was after an earlier one."""
        return self._asked.setdefault(name, run) != run

    def _compute(self, name: str, given: Mapping[str, Value], run: int) -> Mapping[str, Tensor]:
        """Return the blobs of an earlier run, from its inputs. Raises RunError if the one asked for is not a tensor.

        The converted net computes most blobs under their names, and then returns them. For the first that it does not,
        the net is converted anew, to one that can return all its blobs. The first few, and those that are asked for
        after another run, too, are returned by the runs from then on.
        """
        with self._lock:
            reason = f"blob {name!r} of net {self.name!r} has no value that is a tensor"
            if name in self._tensors.refused:
                raise RunError(reason)
            try:
                variant = self._variant_returning({name}, given)
            except BridgeError as error:
                self._tensors.refused.add(name)
                raise RunError(f"{reason}: {error}") from error
            if name not in variant.outputs:
                raise RunError(reason)
            if self._ask(name, run):
                self._want(*self._asked)
            elif len(self._asked) <= _FEW:
                self._want(name)
        return variant.run(given)

    def _variant_returning(self, names: Collection[str], given: Mapping[str, Value]) -> Variant:
        """Return a variant that returns some blobs among others: of the converted net, or of one with all its blobs."""
        signature = self._signature(given)
        variant = self._extended.get(signature)
        if variant is None and (lowered := self._lowered.get(signature)) is not None:
            known = {*lowered.outputs, *self.interface.undeclared, *self.interface.rewritten}
            lowered = lowered.returning([n for n in self.interface.writes if n not in known])
            variant = self._extended[signature] = self._builder.build_with_states(lowered, given, ())
        if variant is None or not self._tensors.refused.union(variant.outputs).issuperset(names):
            required = self._required_with(given)
            others = [n for n in self.interface.writes if n not in required and n not in self._tensors.refused]
            lowered, _ = self._convert_available(given, required, others)
            variant = self._extended[signature] = self._builder.build_with_states(lowered, given, ())
            self._lowered.pop(signature, None)
        return variant

    # Constants

    def _choose_constants(self, given: Mapping[str, Value], constants: Mapping[str, Value]) -> None:
        with self._lock:
            if self._constants is None:
                self._set_constants({
                    name: value
                    for name, value in given.items()
                    if (constants.get(name) is value or self._is_unit_weight(name, value)) and name not in self._written
                    and not (self.device == CPU and self._large.includes(name, value))
                })  # fmt: skip

    def _is_unit_weight(self, name: str, value: Value) -> bool:
        return (
            name in self.interface.weights and isinstance(value, np.ndarray) and value.size == 1 and value.item() == 1
        )

    def _demote_constants(self, names: Collection[str]) -> None:
        """Make inputs of constants that changed."""
        with self._lock:
            self._set_constants({name: v for name, v in (self._constants or {}).items() if name not in names})
            self._forget_variants()

    def _set_constants(self, constants: dict[str, Value]) -> None:
        read = (*self.interface.needs, *self.interface.may_need)
        self._free = tuple(name for name in read if name not in constants)
        self._constants = constants

    # Variants

    def _variant_for(self, given: Mapping[str, Value], constants: Mapping[str, Value]) -> Variant:
        if self._constants is None:
            self._choose_constants(given, constants)
        chosen = self._constants
        if chosen and not all(map(operator.is_, map(given.get, chosen), chosen.values())):
            # Another thread chose them after these inputs were collected.
            self._demote_constants([name for name, value in chosen.items() if given.get(name) is not value])
        signature = self._signature(given)
        variant = self._variants.get(signature)
        if variant is None:
            with self._lock:
                variant = self._variants.get(signature) or self._add_variant(given)
        return variant

    def _forget_variants(self) -> None:
        self._last = None
        self._variants.clear()
        self._lowered.clear()
        self._extended.clear()

    def _signature(self, given: Mapping[str, Value]) -> Signature:
        return signature_of(self._free, given, sized=self._compiler.sized)

    def _forget_changed_sizes(self, given: Mapping[str, Value]) -> None:
        """Take inputs whose known sizes changed since the last conversion as inputs of any size from now on."""
        known = {name: shape for name in self._compiler.sized if (shape := _shape(given.get(name))) is not None}
        while changed := self._changed_sizes(known):
            self._forget_variants()  # their signatures hold sizes: no run would find them
            if not self._compiler.forget_sizes(changed):
                break
        self._known_sizes.update(known)

    def _changed_sizes(self, shapes: Mapping[str, tuple[int, ...]]) -> list[str]:
        """Return the inputs of which sizes that are known to the conversion have changed since the last one."""
        first = self._compiler.sized
        pairs = [(name, shape, self._known_sizes.get(name, shape)) for name, shape in shapes.items() if name in first]
        return [name for name, shape, before in pairs if shape[first[name] :] != before[first[name] :]]

    def _add_variant(self, given: Mapping[str, Value]) -> Variant:
        self._forget_changed_sizes(given)
        if not self._complete and large_states(self.interface.tables, given):
            self._return_every_blob()  # a deferred computation would need states that the next run overwrites
        required = self._required_with(given)
        optional = [name for name in self._optional if name not in required]
        signature = self._signature(given)
        if signature in self._lowered or signature in self._extended:  # another blob is asked for, others soon
            wanted = {*required, *optional}
            variant = self._variant_returning(wanted, given).returning(wanted, self.interface.writes)
            self._variants[self._signature(given)] = variant
            return variant
        lowered, available = self._convert_available(given, required, optional)
        if len(available) < len(optional):
            self._optional = tuple(available)
        if lowered.random and not self._complete:
            self._return_every_blob()  # a deferred computation would draw other numbers
            return self._add_variant(given)
        returned = set(lowered.outputs)
        late = self._in_workspace and not self._complete
        deferred = () if not late else tuple(name for name in self.interface.writes if name not in returned)
        variant = self._builder.build_with_states(lowered, given, deferred)
        self._resident = self._resident or variant.resident is not None
        signature = self._signature(given)  # the conversion may have turned out to need sizes
        self._variants[signature] = variant
        if deferred and lowered.is_light():
            self._lowered[signature] = lowered
        return variant

    def _required_with(self, given: Mapping[str, Value]) -> list[str]:
        """Return the blobs that every run with such inputs must return: among them the states that are given."""
        return list(dict.fromkeys([*self._required, *(name for name in self.interface.state if name in given)]))

    def _return_every_blob(self) -> None:
        self._complete = True
        self._optional = tuple(name for name in self.interface.writes if name not in self._required)

    def _convert_available(
        self, given: Mapping[str, Value], required: Sequence[str], optional: Sequence[str]
    ) -> tuple[Lowered, list[str]]:
        """Convert with those of the optional outputs that are tensors."""
        return self._tensors.convert(lambda outputs: self._convert(given, outputs), required, optional)

    def _convert(self, given: Mapping[str, Value], outputs: list[str]) -> Lowered:
        return self._compiler.convert(given, self._free, self._constants or {}, outputs)


def _shape(value: Value | None) -> tuple[int, ...] | None:
    plain = value.data if isinstance(value, Int8Tensor) else value
    return plain.shape if isinstance(plain, np.ndarray | DeviceTensor) else None

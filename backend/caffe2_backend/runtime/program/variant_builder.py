"""Variants of a program from its converted net: which session runs it, and how it keeps states from run to run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from caffe2_backend.runtime.devices.device_names import CPU
from caffe2_backend.runtime.program.buffers.pool import BufferPool
from caffe2_backend.runtime.program.conversion import Lowered
from caffe2_backend.runtime.program.interface import NetInterface
from caffe2_backend.runtime.program.states.resident import ResidentStates, large_states
from caffe2_backend.runtime.program.variant import Variant
from caffe2_backend.runtime.sessions.session import Session
from caffe2_backend.runtime.sessions.session_options import SessionOptions
from caffe2_backend.runtime.values import DeviceTensor, HostObject, Int8Tensor, Value

# The bytes of inputs up to which a session stays for other programs when nothing uses it.
_SMALL: Final = 1 << 20
# Those up to which one thread runs a net: the weights of an LSTM of 100 units, for example.
_TINY: Final = 1 << 18


@dataclass(frozen=True)
class VariantBuilder:
    """Makes the variants of a program.

    Attributes:
        interface: of the program's net.
        device: where it runs.
        options: of the sessions.
        pairs: the outputs by the inputs that they are in the next run.
    """

    interface: NetInterface
    device: str
    options: SessionOptions
    pairs: Mapping[str, str]

    def build(self, lowered: Lowered, given: Mapping[str, Value], deferred: tuple[str, ...] = ()) -> Variant:
        """Make a variant each run of which starts from values that the caller gives.

        Args:
            lowered: the converted net.
            given: inputs of the kind that the variant is for.
            deferred: blobs that are computed after a run, if they are asked for.
        """
        return self._variant(self._session(lowered, given), lowered, deferred, given)

    def build_with_states(self, lowered: Lowered, given: Mapping[str, Value], deferred: tuple[str, ...]) -> Variant:
        """Build as :meth:`build`, with states updated in place, or kept in buffers from run to run, where possible."""
        resident = self._resident_session(lowered, given)
        if resident is not None:
            session, states = resident
            return dataclasses.replace(self._variant(session, lowered, deferred, given), resident=states)
        variant = self.build(lowered, given, deferred)
        if not variant.arrays or self.options.providers or variant.session is None:
            return variant
        pool = self._pool(variant, variant.session, lowered, self._options_for(given))
        return dataclasses.replace(variant, pool=pool)

    def _session(self, lowered: Lowered, given: Mapping[str, Value]) -> Session | None:
        """Return the session of a converted net; None if it computes nothing."""
        if not lowered.outputs:
            return None
        small = self.device == CPU and _total_bytes(given) <= _SMALL
        return lowered.session(self.device, self._options_for(given), keep=small)

    def _options_for(self, given: Mapping[str, Value]) -> SessionOptions:
        """Return the options of a session: a net of tiny inputs runs in one thread, unless threads were asked for.

        Its operators take less time than to hand them to other threads, which would wait busily for the next ones.
        """
        options = self.options
        if options.threads is not None or self.device != CPU or _total_bytes(given) > _TINY:
            return options
        return dataclasses.replace(options, threads=1)

    def _resident_session(self, lowered: Lowered, given: Mapping[str, Value]) -> tuple[Session, ResidentStates] | None:
        """Return a session updating states in place; None if a copy takes no time, or some are texts or quantized."""
        plain = not lowered.quantized and all(_is_plain(value) for value in given.values())
        if not (plain and large_states(self.interface.tables, given)):
            return None
        return lowered.resident_session(self.device, self.options, self.interface.state)

    def _pool(self, variant: Variant, session: Session, lowered: Lowered, options: SessionOptions) -> BufferPool:
        """Return runs in buffers, with states in them if the net has some."""
        outputs = dict(zip(variant.outputs, variant.graph_outputs, strict=True))
        inputs = dict(zip(session.inputs, variant.inputs, strict=True))
        names = {blob: name for name, blob in inputs.items()}
        states = {names[blob]: outputs[out] for blob, out in self.pairs.items() if blob in names and out in outputs}
        blobs = {output: name for name, output in outputs.items()}
        make = (lambda: lowered.step_session(session, options, states)) if states else None
        return BufferPool(session, states, blobs, inputs, make)

    def _variant(
        self, session: Session | None, lowered: Lowered, deferred: tuple[str, ...], given: Mapping[str, Value]
    ) -> Variant:
        graph_inputs = session.inputs if session is not None else ()
        graph_outputs = list(session.outputs) if session is not None else []
        inputs = tuple(lowered.names.get(name, name) for name in graph_inputs)
        on_host = self.device == CPU and self.options.stand_in.get(CPU, CPU) == CPU
        arrays = on_host and not lowered.quantized and all(_is_numeric(given[name]) for name in inputs)
        return Variant(
            session,
            inputs,
            lowered.outputs,
            lowered.quantized,
            deferred,
            on_host,
            arrays,
            graph_outputs,
            graph_inputs if graph_inputs != inputs else None,
            lowered.names,
        )


def _total_bytes(given: Mapping[str, Value]) -> int:
    return sum(map(_bytes, given.values()))


def _bytes(value: Value) -> int:
    plain = value.data if isinstance(value, Int8Tensor) else value
    return plain.nbytes if isinstance(plain, np.ndarray) else 0


def _is_plain(value: Value) -> bool:
    """Whether a value is a tensor, or an object, such as a mutex, of which the converted net has no input."""
    return isinstance(value, DeviceTensor | HostObject) or _is_numeric(value)


def _is_numeric(value: Value) -> bool:
    return isinstance(value, np.ndarray) and value.dtype != object

"""A net through the exporter, for the runtime: what to feed, what comes out, and whether chance is in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Final

from caffe2_backend.runtime.devices.device_names import CPU
from caffe2_backend.runtime.program.buffers.buffer_set import StepSession
from caffe2_backend.runtime.program.shared_sessions import SharedSessions
from caffe2_backend.runtime.program.states.graph_edits import drop_unit_factors, static_shape
from caffe2_backend.runtime.program.states.joined_updates import join_updates
from caffe2_backend.runtime.program.states.resident import ResidentStates, resident_session
from caffe2_backend.runtime.sessions.model_session import is_small, model_session, weight_bytes
from caffe2_backend.runtime.sessions.session import Session
from caffe2_backend.runtime.sessions.session_options import SessionOptions
from caffe2_bridge.diagnostics import ConversionError, Diagnostic
from caffe2_bridge.diagnostics.log import log_new_diagnostics
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.model import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend.interop.domains import standard_type
from caffe2_frontend.interop.operators import RANDOM

if TYPE_CHECKING:
    import onnx_ir as ir

    from caffe2_frontend import Recurrent, TensorInfo

NEEDS_SHAPE: Final = "needs-shape"
_RANDOM: Final = RANDOM | {"Dropout"}
# The bytes of weights up to which a model stays in memory after its session is made.
_LIGHT: Final = 1 << 24
# The bytes of all computed values up to which memory is planned.
_PLANNED: Final = 1 << 24


@dataclass(frozen=True)
class Lowered:
    """A net as ONNX. ``outputs`` are blobs, in the order of the graph's outputs.

    ``quantized`` holds (scale, zero point) of those that are Int8 tensors. ``random``: an operator of the net, whether
    an output depends on it or not, draws random numbers. ``findings`` are the diagnostics. ``names`` has the blobs of
    this net by those of the net of the same structure that was converted; it is empty if they are the same.
    """

    model: ir.Model = field(repr=False)
    outputs: tuple[str, ...]
    quantized: Mapping[str, tuple[float, int]]
    random: bool
    findings: tuple[Diagnostic, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    _sessions: SharedSessions = field(default_factory=SharedSessions, repr=False, compare=False)

    def is_small(self) -> bool:
        """Whether the model fits into one file."""
        return is_small(self.model)

    def is_light(self) -> bool:
        """Whether it takes little memory to keep the model."""
        return weight_bytes(self.model) <= _LIGHT

    def returning(self, blobs: Collection[str]) -> Lowered:
        """Return the same model, which returns further blobs: those that it computes, under their names."""
        import onnx_ir as ir

        values = {self._blob(value): value for node in self.model.graph for value in node.outputs}
        added = {
            name: values[name]
            for name in blobs
            if name in values and isinstance(values[name].type, ir.TensorType) and not values[name].is_graph_output()
        }
        model = self.model.clone()
        copies = {value.name: value for node in model.graph for value in node.outputs}
        model.graph.outputs.extend(copies[value.name] for value in added.values())
        return dataclasses.replace(
            self,
            model=model,
            outputs=(*self.outputs, *added),
            quantized={**self.quantized, **_quantized(added)},
            _sessions=SharedSessions(),
        )

    def _blob(self, value: ir.Value) -> str:
        """Return the blob that a value is, or a name that no blob has."""
        return self.names.get(str(value.name), "") if self.names else str(value.name)

    def resident_session(
        self, device: str, options: SessionOptions, states: Sequence[str]
    ) -> tuple[Session, ResidentStates] | None:
        """Return a session that updates states in place, and its runs; None if a step scatters into none such."""
        outputs = dict(zip(self.outputs, (str(value.name) for value in self.model.graph.outputs), strict=True))
        inputs = {
            self.names.get(str(value.name), str(value.name)): str(value.name) for value in self.model.graph.inputs
        }
        pairs = {inputs.get(name, name): outputs[name] for name in states if name in outputs}
        if not (pairs and self.is_small()):
            return None
        return resident_session(self.model, pairs, device, planned(options, self.model, device))

    def step_session(self, session: Session, options: SessionOptions, states: Mapping[str, str]) -> StepSession:
        """Return what runs with states in buffers use: a session on the host with joined updates, else the given one.

        Args:
            session: of this model.
            options: of the session.
            states: graph outputs by input.
        """
        joined = join_updates(self.model, states) if self.is_small() else None
        if joined is None:
            return StepSession(session)
        return StepSession(_make_session(joined.model, CPU, options), joined.buffers)

    def session(self, device: str, options: SessionOptions, *, keep: bool = False) -> Session:
        """Return a session for the model, which conversions of nets of the same structure share.

        With ``keep`` it stays for a while when nothing uses it any more.
        """

        def make() -> Session:
            return _make_session(self.model, device, options)

        if self.random or options.cuda_graphs:
            return make()  # its state is its own
        return self._sessions.get((device, options), make, keep=keep)


def _make_session(model: ir.Model, device: str, options: SessionOptions) -> Session:
    return model_session(model, device, planned(options, model, device))


def planned(options: SessionOptions, model: ir.Model, device: str) -> SessionOptions:
    """Return options by which memory is planned for inputs of static shapes only: then there is one plan.

    A plan saves time of small nets. It is made by a first run without it, whose memory the arena keeps, too.
    """
    static = all(static_shape(value) is not None for value in model.graph.inputs)
    fits = static and device == CPU and options.parallel_operators == 1 and _bytes_computed(model) <= _PLANNED
    return dataclasses.replace(options, memory_patterns=True) if fits else options


def _bytes_computed(model: ir.Model) -> int:
    """Return the bytes of all values of static shapes that the main graph computes."""
    import onnx_ir as ir

    values = [value for node in model.graph for value in node.outputs]
    pairs = [(value.dtype, static_shape(value)) for value in values if value.dtype not in (None, ir.DataType.STRING)]
    return sum(int(dtype.itemsize * prod(shape)) for dtype, shape in pairs if dtype is not None and shape is not None)


def lower(
    net: NetDef,
    init: InitNet,
    inputs: Mapping[str, TensorInfo],
    outputs: Sequence[str] | None,
    recurrent: Recurrent = "auto",
) -> Lowered:
    """Convert a net.

    Args:
        net: the net; it declares every input it may read.
        init: the parameters, which become constants.
        inputs: the element type and the rank or shape of the other inputs.
        outputs: the blobs to give; None for the exporter's choice.
        recurrent: the form of recurrent nets.

    Raises ConversionError with every finding.
    """
    from caffe2_frontend import ExportOptions, analyze, finish

    options = ExportOptions(inputs=inputs, outputs=outputs, recurrent=recurrent, training=False, defaults=False)
    export = analyze(Model(net, init), options=options)
    random, quantized = False, {}
    given = tuple(outputs) if outputs is not None else tuple(name for name, _ in export.outputs)
    if export.model is not None:
        random = any(standard_type(node) in _RANDOM for node in _all_nodes(export.model))
        quantized = _quantized(dict(zip(given, export.graph.outputs, strict=True)))
    model = finish(export, origins=False)
    drop_unit_factors(model.graph)
    log_new_diagnostics(export.findings)
    return Lowered(model, given, quantized, random, tuple(export.findings))


def needs_sizes(error: ConversionError) -> bool:
    """Whether the conversion may succeed if the sizes of the inputs are known."""
    return any(finding.code == NEEDS_SHAPE for finding in error.findings)


def _all_nodes(model: ir.Model) -> list[ir.Node]:
    return [node for graph in model.graphs() for node in graph]


def _quantized(values: Mapping[str, ir.Value]) -> dict[str, tuple[float, int]]:
    """Return how values that are Int8 tensors are to be read, by name; what only passes a value on keeps it."""
    found = {}
    for name, value in values.items():
        source: ir.Value | None = value
        while source is not None:
            how = source.meta.get("quantization")
            if how is not None:
                found[name] = (how.scale, how.zero_point)
                break
            node = source.producer()
            source = node.inputs[0] if node is not None and standard_type(node) == "Identity" else None
    return found

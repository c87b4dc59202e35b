"""ONNX's backend interface: ONNX models are converted to Caffe2 nets, which run on onnxruntime."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import onnx
import onnx_ir as ir
from onnx.backend.base import Backend, BackendRep, namedtupledict

from caffe2_backend.admission import OnnxModel
from caffe2_backend.importer import import_model
from caffe2_backend.options import ImportOptions
from caffe2_backend.runtime.process_bound import ProcessBound
from caffe2_backend.runtime.sessions.missing_inputs import missing_inputs, require_inputs
from caffe2_backend.runtime.sessions.onnx_session import OnnxSession
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.diagnostics.short_repr import short_repr
from caffe2_bridge.model import Model
from caffe2_frontend import ExportOptions, convert
from caffe2_frontend.interop.files.serialize import to_proto


class Caffe2Rep(ProcessBound, BackendRep):
    """A model that is ready to run; ``model`` is its Caffe2 net.

    Defaults of inputs are constants of the net. For runs that replace some of them the model is converted again,
    without these.
    """

    def __init__(self, model: OnnxModel, options: ImportOptions, device: str) -> None:
        self._source, self._options, self._device = model, options, device
        imported = import_model(model, options)
        self.model = imported.model
        self._required, self._inputs = self.model.inputs, imported.inputs
        self._sessions = {frozenset[str](): _session(self.model, device)}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return short_repr(self, inputs=tuple(self._required), outputs=self.model.outputs)

    def run(self, inputs: Any, **_: Any) -> tuple[Any, ...]:
        """Run the model once.

        Args:
            inputs: the values of the graph's inputs in their order, without those that have defaults or with all of
                them, or a mapping by name, or one array.

        Returns:
            The outputs, in the graph's order, and by name as attributes where their names allow it.

        Raises:
            RunError: the inputs do not fit the model, or the run fails.
        """
        if not isinstance(inputs, Mapping):
            inputs = self._named(inputs if isinstance(inputs, list | tuple) else [inputs])
        require_inputs(inputs, self._inputs)
        session = self._taking(frozenset(inputs).difference(self._required))
        outputs: tuple[Any, ...] = namedtupledict("Outputs", self.model.outputs)(*session.run_values(inputs))
        return outputs

    def _named(self, values: Sequence[Any]) -> dict[str, Any]:
        """Return values in the graph's order, by name."""
        for names in (self._required, self._inputs):
            if len(names) == len(values):
                return dict(zip(names, values, strict=True))
        own, more = len(self._required), len(self._inputs) - len(self._required)
        optional = f", and {more} with defaults" if more else ""
        raise RunError(f"the model has {own} inputs{optional}, and {len(values)} values were given")

    def _taking(self, replaced: frozenset[str]) -> OnnxSession:
        """Return the session in which these defaults are replaced."""
        with self._lock:
            if replaced not in self._sessions:
                imported = import_model(self._source, replace(self._options, required=replaced))
                self._sessions[replaced] = _session(imported.model, self._device)
            return self._sessions[replaced]


def _session(model: Model, device: str) -> OnnxSession:
    """Return a session for a net, whose parameters are constants."""
    converted = convert(model, options=ExportOptions(defaults=False))
    return OnnxSession(to_proto(converted).SerializeToString(), device)


def prepare(
    model: OnnxModel, device: str = "CPU", *, base_dir: str | os.PathLike[str] | None = None, **_: Any
) -> Caffe2Rep:
    """Convert an ONNX model to a Caffe2 net, which carries operators that Caffe2 lacks, and make a session for it.

    Args:
        model: the model, as :func:`caffe2_backend.to_netdef` takes it.
        device: ``CPU`` or ``CUDA:N``.
        base_dir: the folder of the model's external data, as for :func:`caffe2_backend.to_netdef`.

    Raises:
        ConversionError: the model cannot be converted.
        RunError: onnxruntime cannot run it, or the device does not exist.
    """
    return Caffe2Rep(model, ImportOptions("carry", base_dir=base_dir), _device(device))


def run_model(
    model: OnnxModel, inputs: Any, device: str = "CPU", *, base_dir: str | os.PathLike[str] | None = None, **_: Any
) -> tuple[Any, ...]:
    """Prepare and run a model once; see :func:`prepare` and :meth:`Caffe2Rep.run`."""
    return prepare(model, device, base_dir=base_dir).run(inputs)


def run_node(
    node: onnx.NodeProto,
    inputs: Any,
    device: str = "CPU",
    outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
    *,
    opset_version: int | None = None,
    **_: Any,
) -> tuple[Any, ...]:
    """Run one node once.

    Args:
        node: the node.
        inputs: the values of the inputs that it lists, in order or by name.
        device: see :func:`prepare`.
        outputs_info: element type and shape of each output; None to infer them from the node.
        opset_version: the opset of the node; the newest by default.

    Raises RunError if an input is missing, or there are too many.
    """
    names = [name for name in dict.fromkeys(node.input) if name]
    if not isinstance(inputs, Mapping) and len(inputs) != len(names):
        raise RunError(f"the node has {len(names)} inputs, and {len(inputs)} values were given")
    values = inputs if isinstance(inputs, Mapping) else dict(zip(names, inputs, strict=True))
    missing = [name for name in names if name not in values]
    if missing:
        raise missing_inputs(missing, {})
    graph = onnx.GraphProto(name=node.op_type, node=[node])
    graph.input.extend(_described(name, values[name]) for name in names)
    for index, name in enumerate(node.output):
        info = onnx.ValueInfoProto(name=name)
        if outputs_info is not None:
            dtype, shape = outputs_info[index]
            kind = ir.TensorType(ir.DataType.from_numpy(dtype))
            info = ir.serde.serialize_value(ir.Value(name=name, type=kind, shape=ir.Shape(shape)))
        if name:
            graph.output.append(info)
    version = opset_version if opset_version is not None else onnx.defs.onnx_opset_version()
    opset = onnx.OperatorSetIdProto(domain=node.domain, version=version if not node.domain else 1)
    model = onnx.ModelProto(ir_version=onnx.IR_VERSION, graph=graph, opset_import=[opset])
    return run_model(model, values, device)


def _described(name: str, value: Any) -> onnx.ValueInfoProto:
    first = value[0] if isinstance(value, list) and value else value
    tensor = ir.TensorType(ir.DataType.STRING if first.dtype.kind in "OSU" else ir.DataType.from_numpy(first.dtype))
    if isinstance(value, list):
        return ir.serde.serialize_value(ir.Value(name=name, type=ir.SequenceType(tensor)))
    return ir.serde.serialize_value(ir.Value(name=name, type=tensor, shape=ir.Shape(value.shape)))


def supports_device(device: str) -> bool:
    """Whether models can run on a device: ``CPU``, or ``CUDA:N`` if this onnxruntime has CUDA."""
    from caffe2_backend.runtime.sessions.onnxruntime_library import real_device
    from caffe2_backend.runtime.sessions.session_options import DEFAULTS

    try:
        real_device(_device(device), DEFAULTS)
    except RunError:
        return False
    return True


def _device(device: str) -> str:
    kind, _, number = device.lower().partition(":")
    return f"{kind}:{number or 0}" if kind == "cuda" else kind


class Caffe2Backend(Backend):
    """The module's functions as the class that ONNX's test runner expects."""

    prepare = staticmethod(prepare)
    run_model = staticmethod(run_model)
    run_node = staticmethod(run_node)  # type: ignore[assignment] # onnx annotates its keywords as dicts
    supports_device = staticmethod(supports_device)

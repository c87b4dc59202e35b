"""What a folder that serves a model holds, whatever the server."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

import numpy as np
import onnx
import onnx_ir as ir

from caffe2_backend.runtime.values import Array, Int8Tensor
from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.model import Model
from caffe2_frontend import ExportOptions, convert
from caffe2_frontend.interop.bodies import proto_nodes
from caffe2_frontend.interop.files.serialize import to_proto
from caffe2_frontend.interop.input_defaults import inputs_with_defaults
from caffe2_validation.api import run_validation, synthesize
from caffe2_validation.options import ValidationOptions
from caffe2_validation.report import ValidationReport
from caffe2_validation.runtimes import Loaded, find_runtime

_RUNS: Final = 10

Dim = int | str | None


@dataclass(frozen=True)
class Port:
    """An input or output of a model: its name, element type, as NumPy names it, and dims, a name where one varies."""

    name: str
    dtype: str
    dims: tuple[Dim, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join('?' if dim is None else str(dim) for dim in self.dims)}]"


@dataclass(frozen=True)
class Contents:
    """A model, and what is known of it.

    Attributes:
        name: of the model, and of the folder in a repository of models.
        model: the export.
        sample: inputs to try it with, by name.
        expected: the outputs for them, by name.
        computed_by: the runtime that computed the expected outputs, with its versions.
        report: how the export compares in the runtimes that are installed.
        milliseconds: the median time of a run of the sample on onnxruntime, here.
        licence: of the model; empty if it is not stated.
    """

    name: str
    model: onnx.ModelProto = field(repr=False)
    sample: Mapping[str, Array] = field(repr=False)
    expected: Mapping[str, Array] = field(repr=False)
    computed_by: str
    report: ValidationReport = field(repr=False)
    milliseconds: float
    licence: str = ""

    @property
    def inputs(self) -> list[Port]:
        """The inputs without a default."""
        optional = inputs_with_defaults(self.model)
        return [_port(value) for value in self.model.graph.input if value.name not in optional]

    @property
    def outputs(self) -> list[Port]:
        """The outputs."""
        return [_port(value) for value in self.model.graph.output]

    @property
    def opset(self) -> int:
        """The version of ONNX's own operators."""
        return next(entry.version for entry in self.model.opset_import if entry.domain in ("", "ai.onnx"))

    @property
    def operators(self) -> Counter[str]:
        """How many operators of each type there are, bodies included."""
        return Counter(node.op_type for node in proto_nodes(self.model.graph))

    @property
    def parameter_bytes(self) -> int:
        """The bytes of the weights."""
        return sum(onnx.numpy_helper.to_array(tensor).nbytes for tensor in self.model.graph.initializer)

    @property
    def batch(self) -> str | None:
        """The name of the dim along which requests can be joined: the first one of every input and output."""
        firsts = {port.dims[0] if port.dims else None for port in (*self.inputs, *self.outputs)}
        (first,) = firsts if len(firsts) == 1 else (None,)
        return first if isinstance(first, str) else None


def gather(
    model: Model,
    *,
    name: str = "",
    target: str = "onnxruntime",
    licence: str = "",
    options: ValidationOptions | None = None,
) -> Contents:
    """Export a model, and run it on synthesized inputs.

    Args:
        model: a Caffe2 model with its weights.
        name: what the server calls it; by default the net's name.
        target: the runtime that the export is for, as :func:`caffe2_frontend.to_onnx` takes it.
        licence: of the model.
        options: of the validation: described inputs, the seed.

    Raises:
        ConversionError: the model cannot be exported for this runtime, or it has no weights.
        RunError: no inputs are found with which it runs.
        OptionError: the name has characters that a folder of a model must not have.
    """
    name = name or model.predict_net.name or "model"
    if not name.replace("-", "").replace("_", "").replace(".", "").isalnum() or name.startswith("."):
        raise OptionError(f"the name of a model must be letters, digits, '-', '_' and '.', not {name!r}: give --name")
    options = options or ValidationOptions()
    made = synthesize(model, options)
    sample = made.cases[1 if len(made.cases) > 1 else 0].inputs
    export = ExportOptions(inputs=made.forms.described, training=False, require_weights=True, target=target)
    proto = to_proto(convert(model, options=export))
    report = run_validation(model, sample, None, options)
    exported = find_runtime("onnxruntime-cpu").load(proto)
    reference = find_runtime("caffe2" if report.compared_with_caffe2 else "onnxruntime-cpu")
    found = (reference.load(model) if reference.form == "caffe2" else exported).run(sample)
    names = [value.name for value in proto.graph.output]
    read = {value.name for value in proto.graph.input}
    return Contents(
        name,
        proto,
        {name: _plain(value) for name, value in sample.items() if name in read},
        {name: _plain(found[name]) for name in names if name in found},
        " ".join((reference.name, *(f"({part} {version})" for part, version in reference.versions().items()))),
        report,
        _milliseconds(exported, sample),
        licence,
    )


def digest(data: bytes) -> str:
    """Return the SHA-256 digest of a file's bytes, in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def _milliseconds(loaded: Loaded, sample: Mapping[str, Any]) -> float:
    loaded.run(sample)
    times = []
    for _ in range(_RUNS):
        start = time.perf_counter()
        loaded.run(sample)
        times.append(time.perf_counter() - start)
    return 1000 * median(times)


def _plain(value: Array | Int8Tensor) -> Array:
    return value.data if isinstance(value, Int8Tensor) else np.asarray(value)


def _port(value: onnx.ValueInfoProto) -> Port:
    tensor = value.type.tensor_type
    is_text = tensor.elem_type == onnx.TensorProto.STRING
    dtype = "string" if is_text else str(ir.DataType(tensor.elem_type).numpy())
    dims = (dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in tensor.shape.dim)
    return Port(value.name, dtype, tuple(dims))

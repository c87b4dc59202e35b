"""What the export knows of a net, for its picture: the types of blobs, the diagnostics, the exported model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir

from caffe2_backend.picture.sketch import Type, extent
from caffe2_bridge.diagnostics import BridgeError, ConversionError, Diagnostic
from caffe2_bridge.model import PLACEHOLDER_SHAPES, Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import Export, ExportOptions, Recurrent, analyze, finish
from caffe2_frontend.interop.bodies import bodies


@dataclass(frozen=True)
class Known:
    """What is known of an operator: the types of its outputs, and of its bodies' operators by argument."""

    outputs: list[Type]
    bodies: Mapping[str, Types] = field(default_factory=dict)


# By the operator's index.
Types = dict[int, Known]


@dataclass(frozen=True)
class ModelTypes:
    """The types of a net's inputs, by name, and of its operators' outputs.

    Attributes:
        given: of the inputs.
        operators: of the operators' outputs.
        findings: the diagnostics of the export.
        exported: the ONNX model; None if the net cannot be exported, or if it was not asked for.
    """

    given: Mapping[str, Type] = field(default_factory=dict)
    operators: Types = field(default_factory=dict)
    findings: tuple[Diagnostic, ...] = ()
    exported: ir.Model | None = None


def types_of(model: Model, *, inputs: Mapping[str, Any] | None = None, export: bool = False) -> ModelTypes:
    """Return the types from the export's shape inference; if the export fails, those of inputs from the init net.

    ``inputs`` is what is known of inputs, as for ``to_onnx``; with ``export`` the net is exported as well.
    """
    found: dict[str, Type] = {}
    renamed = last = None
    # As a loop, a recurrent net has a body, and so shapes in it; fused, more may be known of its results.
    forms: tuple[Recurrent, ...] = ("loop", "auto") if _has_bodies(model.predict_net) else ("auto",)
    for form in forms:
        last = _analyzed(model, ExportOptions(inputs=inputs or {}, recurrent=form))
        if last is not None and last.model is not None:
            renamed = last.predict
            for value in _values(last.graph):
                if value.name is not None and not found.get(value.name, Type()).extent:
                    found[value.name] = type_of(value)
    stored = {
        n: Type(extent(p.shape), p.dtype.name)
        for n, p in model.init.placeholders.items()
        if p.shape not in PLACEHOLDER_SHAPES
    }
    given = {**{name: found.get(name, Type()) for name in model.inputs}, **stored}
    operators = {} if renamed is None else _net(model.predict_net, renamed, found)
    findings = () if last is None else last.findings
    exported = None
    if export and last is not None:
        try:
            exported = finish(last)
        except ConversionError as error:
            findings = tuple(error.findings)
        except BridgeError:
            pass
    return ModelTypes(given, operators, findings, exported)


def _has_bodies(net: NetDef) -> bool:
    return any(arg.HasField("n") for op in net.op for arg in op.arg)


def _analyzed(model: Model, options: ExportOptions) -> Export | None:
    try:
        return analyze(model, options=options)
    except BridgeError:  # a picture needs no shapes: the check reports the error
        return None


def _values(graph: ir.Graph) -> Iterator[ir.Value]:
    yield from graph.inputs
    for node in graph:
        yield from node.outputs
        for body in bodies(node):
            yield from _values(body)


def type_of(value: ir.Value) -> Type:
    """Return what a graph states of a value."""
    dtype = "" if value.dtype is None else dtype_text(value.dtype)
    if value.shape is None:
        return Type("", dtype)
    return Type(extent(tuple(dim if isinstance(dim, int) else dim.value for dim in value.shape)), dtype)


def dtype_text(kind: ir.DataType) -> str:
    """Return an element type as NumPy calls it."""
    return {"FLOAT": "float32", "DOUBLE": "float64"}.get(kind.name, kind.name.lower())


def _net(net: NetDef, renamed: NetDef, types: Mapping[str, Type]) -> Types:
    """Return the types in a net, found under the names that the export gave: one for each writing of a blob."""
    if len(net.op) != len(renamed.op):
        return {}
    found: Types = {}
    for index, (op, other) in enumerate(zip(net.op, renamed.op, strict=True)):
        names = list(other.output) if len(op.output) == len(other.output) else [""] * len(op.output)
        bodies = {
            arg.name: _net(arg.n, twin.n, types)
            for arg, twin in zip(op.arg, other.arg, strict=False)
            if arg.HasField("n") and arg.name == twin.name
        }
        found[index] = Known([types.get(name, Type()) for name in names], bodies)
    return found

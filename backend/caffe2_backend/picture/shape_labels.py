"""The shapes of a net's blobs, as the export's inference knows them, for labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from caffe2_backend.picture.sketch import extent
from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.model import PLACEHOLDER_SHAPES, Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import Export, ExportOptions, Recurrent, analyze
from caffe2_frontend.interop.bodies import bodies


@dataclass(frozen=True)
class Known:
    """What is known of an operator: the extents of its outputs, and of its bodies' operators by argument."""

    outputs: list[str]
    bodies: Mapping[str, Extents] = field(default_factory=dict)


# By the operator's index.
Extents = dict[int, Known]


@dataclass(frozen=True)
class ModelExtents:
    """The extents of a net's inputs, by name, and of its operators' outputs."""

    given: Mapping[str, str] = field(default_factory=dict)
    operators: Extents = field(default_factory=dict)


def extents_of(model: Model) -> ModelExtents:
    """Return the extents from the export's shape inference; if the export fails, those of inputs from the init net."""
    texts: dict[str, str] = {}
    renamed = None
    # As a loop, a recurrent net has a body, and so shapes in it; fused, more may be known of its results.
    forms: tuple[Recurrent, ...] = ("loop", "auto") if _has_bodies(model.predict_net) else ("auto",)
    for form in forms:
        export = _analyzed(model, form)
        if export is not None and export.model is not None:
            renamed = export.predict
            for value in _values(export.graph):
                if value.name is not None and not texts.get(value.name):
                    texts[value.name] = _extent(value.shape)
    stored = {n: extent(p.shape) for n, p in model.init.placeholders.items() if p.shape not in PLACEHOLDER_SHAPES}
    given = {**{name: texts.get(name, "") for name in model.inputs}, **stored}
    return ModelExtents(given, {} if renamed is None else _net(model.predict_net, renamed, texts))


def _has_bodies(net: NetDef) -> bool:
    return any(arg.HasField("n") for op in net.op for arg in op.arg)


def _analyzed(model: Model, form: Recurrent) -> Export | None:
    try:
        return analyze(model, options=ExportOptions(recurrent=form))
    except BridgeError:  # a picture needs no shapes: the check reports the error
        return None


def _values(graph: ir.Graph) -> Iterator[ir.Value]:
    yield from graph.inputs
    for node in graph:
        yield from node.outputs
        for body in bodies(node):
            yield from _values(body)


def _extent(shape: ir.Shape | None) -> str:
    if shape is None:
        return ""
    return extent(tuple(dim if isinstance(dim, int) else dim.value for dim in shape))


def _net(net: NetDef, renamed: NetDef, texts: Mapping[str, str]) -> Extents:
    """Return the extents in a net, found under the names that the export gave: one for each writing of a blob."""
    if len(net.op) != len(renamed.op):
        return {}
    found: Extents = {}
    for index, (op, other) in enumerate(zip(net.op, renamed.op, strict=True)):
        names = list(other.output) if len(op.output) == len(other.output) else [""] * len(op.output)
        bodies = {
            arg.name: _net(arg.n, twin.n, texts)
            for arg, twin in zip(op.arg, other.arg, strict=False)
            if arg.HasField("n") and arg.name == twin.name
        }
        found[index] = Known([texts.get(name, "") for name in names], bodies)
    return found

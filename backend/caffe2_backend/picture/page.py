"""The interactive picture of a model: a page that needs no other file, no network and no graphviz.

The viewer, ``viewer.js``, is built from the folder ``viewer`` of the repository. It lays out and draws what it finds in
the page as compressed JSON. Names in models are untrusted: base64 keeps them out of the markup, and the viewer makes
text nodes of them.
"""

from __future__ import annotations

import gzip
import html
import json
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import onnx
import onnx_ir as ir

from caffe2_backend.picture.caffe2 import sketch_model
from caffe2_backend.picture.onnx_model import every_graph, read_onnx, sketch_graph
from caffe2_backend.picture.shape_labels import dtype_text, types_of
from caffe2_backend.picture.sketch import Box, Colouring, Kind, Node, Sketch, Type, extent
from caffe2_backend.picture.weights import weight_data
from caffe2_bridge.devices import Profile
from caffe2_bridge.diagnostics import Location, OptionError
from caffe2_bridge.diagnostics.printable import printable
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.storage import AnyPath
from caffe2_frontend.interop.files.strip_weights import without_weights

_VIEWER: Final = Path(__file__).with_name("viewer.js")
Finding = tuple[str, str, str, str]


@dataclass(frozen=True)
class Side:
    """A net in the picture: the model, or its export.

    Attributes:
        name: of the format.
        sketch: the net.
        weights: what the panel shows of weights, by name.
        colouring: the results of operators, and the operators to mark.
    """

    name: str
    sketch: Sketch
    weights: Mapping[str, Any] = field(default_factory=dict)
    colouring: Colouring | None = None


@dataclass(frozen=True)
class Picture:
    """What an interactive picture shows.

    Attributes:
        sides: the model, and its export to ONNX if there is one, linked by the locations of operators.
        findings: severity, code, reason and hint of diagnostics, by location; some are of the net as a whole.
        seconds: the time that operators take, by location.
    """

    sides: tuple[Side, ...]
    findings: Mapping[str, list[Finding]] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)


def picture_html(
    model: Model | onnx.ModelProto | AnyPath, *, inputs: Mapping[str, Any] | None = None, profile: Profile | None = None
) -> str:
    """Return the interactive picture of a model as a whole HTML page, for a file or the ``srcdoc`` of an iframe.

    Args:
        model: a Caffe2 model, which is shown with its export to ONNX if it has one, or an ONNX model or its path.
        inputs: what is known of the inputs of a Caffe2 model, as for ``to_onnx``.
        profile: the times of the model's operators.

    Raises:
        InputSpecError: the description of an input is not ``(dtype, shape)``.
        OptionError: no operator reads an input that is described, or the profile is of another net.
        NetFormatError: the file holds no ONNX model.
        ConversionError: the ONNX model is malformed.
    """
    picture = picture_of(model, inputs=inputs, profile=profile)
    policy = f"default-src 'none'; script-src '{viewer_hash()}'; base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{html.escape(printable(picture.sides[0].sketch.title))}</title>\n</head>\n<body>\n"
        f"{picture_element(picture, whole=True)}\n</body>\n</html>\n"
    )


def picture_element(picture: Picture, *, whole: bool = False) -> str:
    """Return a picture as an element of a page, with its viewer.

    A page whose policy lists scripts needs :func:`viewer_hash`. If it is the ``whole`` page, the element fills it.
    """
    data = gzip.compress(json.dumps(picture_data(picture), separators=(",", ":")).encode(), mtime=0)
    fills = ' data-whole="yes"' if whole else ""
    return (
        f'<div data-picture{fills}><script type="application/gzip">{b64encode(data).decode()}</script>'
        f"<noscript>The picture needs JavaScript.</noscript></div>\n<script>{_viewer()}</script>"
    )


@cache
def _viewer() -> str:
    return _VIEWER.read_text(encoding="utf-8")


def viewer_hash() -> str:
    """Return the viewer's hash, as a Content-Security-Policy lists it."""
    return f"sha256-{b64encode(sha256(_viewer().encode()).digest()).decode()}"


def picture_of(
    model: Model | onnx.ModelProto | AnyPath,
    *,
    inputs: Mapping[str, Any] | None = None,
    profile: Profile | None = None,
    findings: Iterable[Mapping[str, Any]] | None = None,
) -> Picture:
    """Return what the picture of a model shows, see :func:`picture_html`.

    ``findings`` are diagnostics as ``Diagnostic.to_dict`` returns them; by default those of the export.
    """
    if not isinstance(model, Model):
        side = _exported_side(ir.from_proto(model), {}) if isinstance(model, onnx.ModelProto) else _onnx_side(model)
        return Picture((side,), _by_location(findings or ()))
    read = {*model.inputs, *(name for op in model.predict_net.op for name in op.input)}
    if unread := [name for name in inputs or () if name not in read]:
        raise OptionError(f"no operator reads input {unread[0]!r}")
    types = types_of(model, inputs=inputs, export=True)
    weights = {
        name: weight_data(Type(extent(p.shape), "text" if p.dtype == object else p.dtype.name), p.load)
        for name, p in model.init.parameters.items()
    }
    sides = [Side("Caffe2", sketch_model(model, types), weights)]
    if types.exported is not None:
        sides.append(_exported_side(types.exported, weights))
    if findings is None:
        findings = [finding.to_dict() for finding in types.findings]
    return Picture(tuple(sides), _by_location(findings), {} if profile is None else _seconds(model, profile))


def _by_location(findings: Iterable[Mapping[str, Any]]) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = defaultdict(list)
    for each in findings:
        found[each["place"]].append((str(each["severity"]), each["code"], each["reason"], each["hint"]))
    return found


def _seconds(model: Model, profile: Profile) -> dict[str, float]:
    """Return the median time of each operator that the profile measured, by location."""
    net = NetView(model.predict_net)
    if any(op.index >= len(net.ops) or net.ops[op.index].type != op.type for op in profile.operators):
        raise OptionError("the profile is of another net: its operators are not those of this one")
    return {
        str(Location(net.name, op.index, op.type, op.name)): sorted(op.seconds)[len(op.seconds) // 2]
        for op in profile.operators
    }


def _exported_side(exported: ir.Model, known: Mapping[str, Any]) -> Side:
    """Return the side of an export; weights that it shares with the net are described already."""
    weights = {}
    for name, value in exported.graph.initializers.items():
        tensor = value.const_value
        if tensor is not None:
            type_ = Type(extent(tuple(tensor.shape.numpy())), dtype_text(tensor.dtype))
            same = known.get(name, {})
            shared = (same.get("shape"), same.get("dtype")) == (type_.extent, type_.dtype)
            weights[name] = same if shared else weight_data(type_, tensor.numpy)
    return Side("ONNX", sketch_graph(without_weights(exported), exported.graph.initializers.keys()), weights)


def _onnx_side(path: AnyPath) -> Side:
    model = read_onnx(path)
    weights = {}
    for graph in every_graph(model.graph):
        for tensor in graph.initializer:
            outside = tensor.data_location == onnx.TensorProto.EXTERNAL
            type_ = Type(extent(tuple(tensor.dims)), dtype_text(ir.DataType(tensor.data_type)))
            weights[tensor.name] = weight_data(type_, None if outside else partial(onnx.numpy_helper.to_array, tensor))
    return Side("ONNX", sketch_graph(model), weights)


def picture_data(picture: Picture) -> dict[str, Any]:
    """Return a picture as plain data: the input of the viewer, which ``viewer/src/graph.js`` describes."""
    groups: dict[str, str] = {}
    sides = []
    for side in picture.sides:
        if side.colouring is not None:
            groups |= side.colouring.colours
        sides.append(_Writer(picture, side).side())
    locations = {node.location for side in picture.sides for node in side.sketch.whole.every_node()}
    of_net = [each for place, found in picture.findings.items() if place not in locations for each in found]
    return {"sides": sides, "groups": groups, "findings": of_net}


class _Writer:
    """Converts a sketch to nets of nodes; the edges of each net are pairs of indices of its nodes."""

    def __init__(self, picture: Picture, side: Side) -> None:
        self._picture = picture
        self._side = side
        self._indices: dict[str, tuple[str, int]] = {}  # by a node's key: its net's key, and its index there
        self._edges: dict[str, list[Any]] = defaultdict(list)

    def side(self) -> dict[str, Any]:
        sketch = self._side.sketch
        net = self._net(sketch.whole)
        for edge in sketch.edges:
            if edge.data:
                (key, source), (_, target) = self._indices[edge.source], self._indices[edge.target]
                self._edges[key].append([source, target, edge.blob, edge.label])
        return {"name": self._side.name, "title": sketch.title, "net": net, "weights": self._side.weights}

    def _net(self, box: Box) -> dict[str, Any]:
        # Keys count up: operators are in the order of the net.
        entries: list[tuple[Node, Box | None]] = [*((node, None) for node in box.nodes)]
        entries += [(inner.nodes[0], inner) for inner in box.boxes]
        entries.sort(key=lambda entry: int(entry[0].key[1:]))
        nodes = []
        for index, (node, inner) in enumerate(entries):
            # The results of an operator with bodies leave its box at the join.
            for key in {node.key, *(other.key for other in (inner.nodes if inner else ()))}:
                self._indices[key] = (box.key, index)
            nodes.append(self._node(node) | ({"bodies": [self._net(body) for body in inner.boxes]} if inner else {}))
        return {"name": box.title, "nodes": nodes, "edges": self._edges[box.key]}

    def _node(self, node: Node) -> dict[str, Any]:
        data: dict[str, Any] = {"kind": node.kind, "t": node.title, "lines": node.lines}
        names = node.outputs if node.kind is Kind.OPERATOR else (node.tooltip,)
        data["outputs"] = [
            (name, *known) for name, known in zip(names, node.types or [Type()] * len(names), strict=True)
        ]
        data |= {"name": node.name, "location": node.location, "device": node.device, "inputs": node.inputs}
        data["arguments"] = node.arguments
        data["findings"] = self._picture.findings.get(node.location, ()) if node.location else ()
        data["time"] = self._picture.seconds.get(node.location, 0)
        if self._side.colouring is not None:
            data["group"] = self._side.colouring.group(node)
            data["mark"] = self._side.colouring.marks.get(node.key, "")
        return {name: value for name, value in data.items() if value}

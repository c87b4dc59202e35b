"""The picture of a model, its operators coloured by how far their results are off."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, Final

from caffe2_backend.picture import Colouring, Kind, Sketch, picture_element, picture_of
from caffe2_bridge.model import Model
from caffe2_bridge.storage import AnyPath
from caffe2_validation.render.marks import FIRST, marks_of
from caffe2_validation.report import BlobResult, ValidationReport

_EQUAL, _CLOSE, _AGREES, _DOWNSTREAM, _HARMLESS, _DISAGREES, _NOT_COMPARED = (
    "equal",
    "agrees within 1e-6",
    "agrees",
    "later blobs agree",
    "differs, outputs agree",
    "disagrees",
    "not compared",
)
# What agrees is green; of several blobs of one operator the last in this order counts.
_COLOURS: Final = {
    _EQUAL: "#b7dfb9",
    _CLOSE: "#cdeaca",
    _AGREES: "#def2d6",
    _DOWNSTREAM: "#eff8ec",
    _HARMLESS: "#fbe3b8",
    _DISAGREES: "#f3a297",
    _NOT_COMPARED: "#e8eaed",
}
_GOOD: Final = frozenset([_EQUAL, _CLOSE, _AGREES])
_SMALL: Final = 1e-6


def error_picture(
    model: Model | AnyPath,
    report: ValidationReport,
    findings: Iterable[Mapping[str, Any]] | None = None,
    inputs: Mapping[str, Any] | None = None,
) -> str:
    """Return the interactive picture of a Caffe2 model, or of the ONNX model in a file, to be put into a page.

    An operator outside of bodies has the colour of the worst of the blobs that it writes, over all cases and runtimes;
    one that no runtime gave for comparison has a pale green if all that is computed from it agrees. The operators that
    the report names are marked. ``findings`` are the diagnostics to show, by default those of the export of the model
    with these ``inputs``. Raises BridgeError if the model cannot be read.
    """
    picture = picture_of(model, inputs=inputs, findings=findings)
    if report.results or report.divergences:
        sides = (replace(side, colouring=colouring(side.sketch, report)) for side in picture.sides)
        picture = replace(picture, sides=tuple(sides))
    return picture_element(picture)


def colouring(sketch: Sketch, report: ValidationReport) -> Colouring:
    """Return how operators are off: groups of ``_COLOURS``, by the report's blobs and the operators that it names."""
    order = list(_COLOURS)
    worst: dict[str, str] = {}
    for result in filter(lambda result: result.difference.compared, report.results):
        band = _band(result, report)
        worst[result.name] = max(worst.get(result.name, band), band, key=order.index)
    # Names in a body are its own: they may be those of other blobs outside.
    top = [*sketch.whole.nodes, *(node for box in sketch.whole.boxes for node in box.nodes)]
    compared: dict[str, str] = {}
    for node in top:
        bands = [worst[name] for name in node.outputs if name in worst]
        if bands:
            compared[node.key] = max(bands, key=order.index)
    # The results of an operator with bodies leave its box at the join.
    for box in sketch.whole.boxes:
        owner = next((node.key for node in box.nodes if node.key in compared), None)
        if owner is not None:
            compared.update((node.key, compared[owner]) for node in box.nodes if node.kind is Kind.JOIN)
    agreeing = _agreeing_downstream(sketch, compared)
    marks = marks_of(sketch, report)
    named = {key: _DISAGREES for key, text in marks.items() if text == FIRST}
    groups = dict.fromkeys(agreeing, _DOWNSTREAM) | compared | named
    return Colouring(lambda node: groups.get(node.key, _NOT_COMPARED), _COLOURS, marks)


def _band(result: BlobResult, report: ValidationReport) -> str:
    found = result.difference
    if not found.agrees:
        return _HARMLESS if report.agrees else _DISAGREES
    if not found.max_abs:
        return _EQUAL
    return _CLOSE if found.max_abs <= _SMALL else _AGREES


def _agreeing_downstream(sketch: Sketch, compared: Mapping[str, str]) -> set[str]:
    """Return the nodes that were not compared, and whose results reach compared nodes, all of which agree.

    Two searches against the edges, from the nodes that agree and from those that do not, each through nodes that were
    not compared. An output that was not compared is not known to agree.
    """
    sources: dict[str, list[str]] = defaultdict(list)
    for edge in sketch.edges:
        sources[edge.target].append(edge.source)
    good = {key for key, band in compared.items() if band in _GOOD}
    # The pill of an output follows the node that writes it: where that was compared, the search ends there.
    bad = compared.keys() - good | {node.key for node in sketch.whole.nodes if node.kind is Kind.OUTPUT}
    return _reaching(good, sources, compared) - _reaching(bad, sources, compared)


def _reaching(targets: AbstractSet[str], sources: Mapping[str, list[str]], compared: Mapping[str, str]) -> set[str]:
    """Return the nodes from which edges lead to one of ``targets`` without passing a compared node."""
    found: set[str] = set()
    waiting = [source for target in targets for source in sources.get(target, ())]
    while waiting:
        key = waiting.pop()
        if key not in found and key not in compared:
            found.add(key)
            waiting += sources.get(key, ())
    return found

"""The picture of a model, its operators coloured by how far their results are off."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from caffe2_backend.picture import Colouring, Sketch, render, sketch_model, sketch_onnx
from caffe2_backend.validation.report import ValidationReport
from caffe2_bridge.model import Model

_COLOURS: Final = {
    "equal": "#cfe8cf",
    "agrees within 1e-6": "#e4e8c4",
    "agrees": "#fbe3b8",
    "disagrees": "#f3a297",
    "not compared": "#e8eaed",
}
_CLOSE: Final = 1e-6
_NOT_COMPARED: Final = "not compared"


def error_picture(model: Model | Path, report: ValidationReport) -> str:
    """A Caffe2 model, or the ONNX model in a file, as an SVG element to be put into a page.

    An operator outside of bodies has the colour of the worst of the blobs that it writes, over all cases and runtimes.
    Raises BridgeError where graphviz is not installed, or cannot draw it.
    """
    sketch = sketch_onnx(model) if isinstance(model, Path) else sketch_model(model)
    svg = render(sketch, colouring(sketch, report)).decode()
    # In a page an svg element needs no namespace and no XML head, and none may look like an address.
    return re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg[svg.index("<svg") :], count=2)


def colouring(sketch: Sketch, report: ValidationReport) -> Colouring:
    """How operators are off: from ``_COLOURS``, by the blobs of the report."""
    order = list(_COLOURS)
    worst: dict[str, str] = {}
    for result in report.results:
        found = result.difference
        if not found.agrees:
            band = "disagrees"
        elif not found.max_abs:
            band = "equal"
        else:
            band = "agrees within 1e-6" if found.max_abs <= _CLOSE else "agrees"
        worst[result.name] = max(worst.get(result.name, band), band, key=order.index)
    # Names in a body are its own: they may be those of other blobs outside.
    top = [*sketch.whole.nodes, *(node for box in sketch.whole.boxes for node in box.nodes)]
    groups = {
        node.key: max((worst[name] for name in node.outputs if name in worst), key=order.index, default=_NOT_COMPARED)
        for node in top
    }
    return Colouring(lambda node: groups.get(node.key, _NOT_COMPARED), _COLOURS)

"""Models in a notebook: a short table, and the interactive picture to unfold."""

from __future__ import annotations

from collections import Counter
from typing import Final

import onnx

from caffe2_backend.picture.page import picture_html
from caffe2_backend.picture.summary import Summary, counted, summarize, summarize_onnx
from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.diagnostics.html_repr import folded_page, html_table
from caffe2_bridge.diagnostics.listing import listed
from caffe2_bridge.model import Model

_NAMES: Final = 12
_MOST_OPERATORS: Final = 2000  # of a picture that is made although nobody may unfold it
_MOST_BYTES: Final = 256 << 20  # of weights, whose statistics it has
_LABEL: Final = "Interactive picture"
_OTHERWISE: Final = (
    "the model is too large for a notebook; caffe2_backend.picture_html(model) returns the page, and "
    "`caffe2-bridge show MODEL --html picture.html` writes it"
)


def model_html(model: Model | onnx.ModelProto) -> str:
    """Return a model as HTML: inputs, outputs, operators by type, parameters, and its picture unless it is large."""
    summary = summarize(model) if isinstance(model, Model) else summarize_onnx(model)
    return html_table(summary.title, _rows(summary)) + _picture(model, summary)


def _rows(summary: Summary) -> list[tuple[str, str]]:
    total = sum(weight.size for weight in summary.weights)
    largest = sorted(summary.weights, key=lambda weight: -weight.size)
    shown = listed([f"{weight.name} {weight.type}{list(weight.shape)}" for weight in largest], _NAMES, str)
    rows = [
        ("inputs", listed(summary.inputs, _NAMES, str)),
        ("outputs", listed(summary.outputs, _NAMES, str)),
        ("operators", _counts(summary.outer)),
    ]
    if summary.inner:
        rows.append(("in bodies", _counts(summary.inner)))
    return [*rows, ("parameters", f"{len(largest)}, {counted(total)} bytes: {shown}" if largest else "")]


def _counts(types: Counter[str]) -> str:
    return f"{types.total()}: {listed([f'{count} {name}' for name, count in types.most_common()], 2 * _NAMES, str)}"


def _picture(model: Model | onnx.ModelProto, summary: Summary) -> str:
    size = sum(weight.size for weight in summary.weights)
    if summary.outer.total() + summary.inner.total() > _MOST_OPERATORS or size > _MOST_BYTES:
        return folded_page(_LABEL, "", _OTHERWISE)
    try:
        return folded_page(_LABEL, picture_html(model), _OTHERWISE)
    except BridgeError as error:
        return folded_page(_LABEL, "", str(error))

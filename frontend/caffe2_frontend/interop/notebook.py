"""ONNX models in a notebook: a table and the interactive picture in the place of protobuf's text."""

from __future__ import annotations

import sys
from typing import Any

import onnx

from caffe2_bridge.diagnostics.html_repr import html_by
from caffe2_bridge.diagnostics.short_repr import short_repr


def register_formatters() -> None:
    """Have IPython show ONNX models, if it runs this process and nobody has told it how.

    protobuf's own text of a model has all of its weights.
    """
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None:
        return
    formatters = shell.display_formatter.formatters
    for mime, function in (("text/html", _html), ("text/plain", _plain)):
        if onnx.ModelProto not in formatters[mime]:
            formatters[mime].for_type(onnx.ModelProto, function)


def _html(model: onnx.ModelProto) -> str:
    return html_by("caffe2_backend.picture.notebook:model_html", model)


def _plain(model: onnx.ModelProto, printer: Any, _: bool) -> None:
    graph = model.graph
    inputs, outputs = ([value.name for value in values] for values in (graph.input, graph.output))
    printer.text(short_repr(model, graph.name, inputs=inputs, outputs=outputs, nodes=len(graph.node)))

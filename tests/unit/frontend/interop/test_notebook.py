"""ONNX models in IPython: a table in the place of protobuf's text."""

from __future__ import annotations

import sys

import onnx
import pytest
from support.nets import net, op

from caffe2_frontend import check, to_onnx
from caffe2_frontend.interop.notebook import register_formatters


def test_ipython_shows_models(monkeypatch: pytest.MonkeyPatch) -> None:
    interactive = pytest.importorskip("IPython.core.interactiveshell")
    shell = interactive.InteractiveShell()
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: shell)
    register_formatters()
    model = to_onnx(net(op("Relu", "x", "y"), inputs="x", outputs="y"), inputs={"x": ("float32", [2])})
    shown, _ = shell.display_formatter.format(model)
    assert shown["text/plain"] == "ModelProto('n', inputs=[x], outputs=[y], nodes=1)"
    assert "<iframe" in shown["text/html"]
    shell.display_formatter.formatters["text/html"].for_type(onnx.ModelProto, lambda _: "mine")
    register_formatters()
    assert shell.display_formatter.format(model)[0]["text/html"] == "mine"


def test_without_ipython_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    register_formatters()
    assert "IPython" not in sys.modules


def test_the_report_of_a_check_shows_itself() -> None:
    report = check(net(op("Relu", "x", "h"), op("<b>Nope", "h", "y"), inputs="x", outputs="y"))
    text = report._repr_html_()
    assert "&lt;b&gt;Nope" in text
    assert "<b>Nope" not in text
    assert "does not convert" in text
    assert "unknown-operator" in text

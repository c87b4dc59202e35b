"""Models in a notebook: what the table has of the summary, and when there is a picture."""

from __future__ import annotations

import html
from html.parser import HTMLParser

import onnx
from support.nets import net, op
from support.paths import CHAR_RNN

from caffe2_backend.picture.notebook import model_html
from caffe2_backend.picture.summary import summarize, summarize_onnx
from caffe2_bridge import Model, load
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import to_onnx

HOSTILE = "</script><img src=x onerror=alert(1)>"


class Parsed(HTMLParser):
    """The tags of a fragment, the rows of its tables, and the pages of its frames."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.rows: list[list[str]] = []
        self.pages: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag == "iframe":
            self.pages.append(dict(attrs)["srcdoc"] or "")

    def handle_data(self, data: str) -> None:
        if self.rows:
            self.rows[-1].append(data)


def test_a_net() -> None:
    model = load(CHAR_RNN)
    shown = Parsed(model._repr_html_())
    rows = {row[0]: row[1] for row in shown.rows if len(row) > 1}
    assert rows["inputs"] == ", ".join(model.inputs)
    assert rows["outputs"] == ", ".join(model.outputs)
    assert rows["operators"].startswith("5: 2 FC, 1 ")
    assert rows["in bodies"] == "3: 1 FC, 1 Sum, 1 LSTMUnit"
    assert rows["parameters"].startswith("6, 957,304 bytes: LSTM/gates_t_w float32[768, 192], ")
    assert summarize(model).outer.total() == 5
    (page,) = shown.pages
    assert page.startswith("<!doctype html>")
    assert "data-picture" in page


def test_an_onnx_model() -> None:
    exported = to_onnx(load(CHAR_RNN))
    before = exported.SerializeToString()
    shown = Parsed(model_html(exported))
    assert exported.SerializeToString() == before
    rows = {row[0]: row[1] for row in shown.rows if len(row) > 1}
    assert rows["inputs"].startswith("input_blob  float[T, N, 94], ")
    assert "1 LSTM" in rows["operators"]
    assert len(shown.pages) == 1
    assert summarize_onnx(exported).title.startswith("model: ")


def test_names_are_text() -> None:
    ops = [OperatorDef(type="Relu", name=HOSTILE, input=[HOSTILE], output=[f"{HOSTILE}y"])]
    shown = Parsed(model_html(Model.of(NetDef(name=HOSTILE, op=ops, external_output=[f"{HOSTILE}y"]))))
    assert "img" not in shown.tags
    assert "script" not in shown.tags  # of the frame alone
    assert "<img" not in html.unescape(shown.pages[0]).split("</title>")[1]
    graph = onnx.GraphProto(name=HOSTILE, node=[onnx.NodeProto(op_type=HOSTILE, input=["x"], output=[HOSTILE])])
    assert "img" not in Parsed(model_html(onnx.ModelProto(ir_version=10, graph=graph))).tags


def test_a_large_net_says_how_to_see_it() -> None:
    ops = [op("Relu", f"b{i}", f"b{i + 1}") for i in range(2001)]
    text = model_html(Model.of(net(*ops, inputs="b0", outputs="b2001")))
    assert not Parsed(text).pages
    assert "caffe2-bridge show MODEL --html picture.html" in text

"""Colours and marks of operators in the picture of a report."""

from __future__ import annotations

from dataclasses import replace

from conformance.recording import operator

from caffe2_backend.picture import Kind, Picture, Side, Sketch, picture_data, sketch_model
from caffe2_bridge.model import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_validation.render.picture import colouring
from caffe2_validation.report import BlobResult, Divergence, ValidationReport
from caffe2_validation.values import Difference

BODY = NetDef(op=[operator("Relu", ["x"], ["h"]), operator("Tanh", ["h"], ["y"])])
NET = NetDef(
    name="n",
    op=[
        operator("Exp", ["x"], ["a"]),
        operator("Relu", ["a"], ["b"]),
        operator("Relu", ["b"], ["c"]),
        operator("If", ["p"], ["y"], then_net=BODY),
    ],
    external_input=["x", "p"],
    external_output=["c", "y"],
)
FINE, OFF = Difference(agrees=True), Difference(agrees=False, reason="differs", max_abs=1.0)


def report(*divergences: Divergence, **blobs: Difference) -> ValidationReport:
    results = tuple(BlobResult("given", "other", n, 1, n in ("c", "y"), d) for n, d in blobs.items())
    return ValidationReport("n", "model", ("model", "other"), results, divergences=divergences)


def groups(found: ValidationReport, sketch: Sketch | None = None) -> dict[str, str]:
    sketch = sketch or sketch_model(Model.of(NET))
    chosen = colouring(sketch, found)
    return {n.location: chosen.group(n) for n in sketch.whole.every_node() if n.kind is Kind.OPERATOR}


def marks(found: ValidationReport) -> dict[str, str]:
    sketch = sketch_model(Model.of(NET))
    texts = colouring(sketch, found).marks
    return {n.location: texts[n.key] for n in sketch.whole.every_node() if n.key in texts}


def first(operator: str, blob: str = "", **more: object) -> Divergence:
    return replace(Divergence(operator, "", blob, (), None, "given", "other", OFF), **more)  # type: ignore[arg-type]


def test_an_agreeing_net_is_green_everywhere() -> None:
    found = groups(report(c=FINE, y=replace(FINE, max_abs=1e-3)))
    assert found == {
        "n[0] Exp": "later blobs agree", "n[1] Relu": "later blobs agree", "n[2] Relu": "equal",
        "n[3] If": "agrees", "n[3] If > then_net[0] Relu": "later blobs agree",
        "n[3] If > then_net[1] Tanh": "later blobs agree",
    }  # fmt: skip


def test_only_what_leads_to_agreeing_blobs_alone_is_green() -> None:
    found = groups(report(b=FINE, c=OFF, y=OFF))
    assert found["n[0] Exp"] == "later blobs agree"
    assert found["n[2] Relu"] == found["n[3] If"] == "disagrees"
    assert found["n[3] If > then_net[0] Relu"] == "not compared"
    assert groups(report(y=FINE))["n[1] Relu"] == "not compared"  # nobody compared its output


def test_a_blob_off_in_a_net_whose_outputs_agree_is_not_red() -> None:
    assert groups(report(a=OFF, c=FINE))["n[0] Exp"] == "differs, outputs agree"
    assert groups(report(a=OFF, c=OFF))["n[0] Exp"] == "disagrees"


def test_the_operator_that_a_diagnosis_names_is_marked() -> None:
    inside = "n[3] If > then_net[1] Tanh"
    found = report(first(inside), c=FINE, y=OFF)
    assert marks(found) == {inside: "first to disagree"}
    assert groups(found)[inside] == "disagrees"
    sketch = sketch_model(Model.of(NET))
    (side,) = picture_data(Picture((Side("Caffe2", sketch, colouring=colouring(sketch, found)),)))["sides"]
    (body,) = (node["bodies"][0] for node in side["net"]["nodes"] if "bodies" in node)
    marked = [node for node in body["nodes"] if "mark" in node]
    assert [(node["t"], node["mark"], node["group"]) for node in marked] == [("Tanh", "first to disagree", "disagrees")]


def test_other_operators_that_it_names_and_suspects() -> None:
    named = first("n[0] Exp", equally=("n[1] Relu",), suspects=("n[2] Relu", "n[0] Exp"))
    assert marks(report(named)) == {
        "n[0] Exp": "first to disagree", "n[1] Relu": "or this one", "n[2] Relu": "suspect",
    }  # fmt: skip
    assert "n[2] Relu" not in marks(report(replace(named, cause="parameter 'w'")))


def test_an_operator_that_is_not_drawn_is_inside_of_the_one_that_is() -> None:
    assert marks(report(first("n[3] If > then_net[7] Copy"))) == {"n[3] If": "first to disagree: in here"}
    assert marks(report(first("elsewhere"))) == {}

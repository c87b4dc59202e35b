"""The page of one model of a batch: the report of its validation, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path, PurePosixPath
from typing import Any, Final

from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.model import Model
from caffe2_bridge.storage import AnyPath
from caffe2_fleet.result import ModelResult
from caffe2_fleet.site.html import mark_of
from caffe2_frontend.interop.files.onnx_files import replacing
from caffe2_validation.render.page import page
from caffe2_validation.render.picture import error_picture
from caffe2_validation.render.template import fill
from caffe2_validation.report import ValidationReport

_TEMPLATE: Final = Path(__file__).with_name("failure.html")


def write_model_page(
    out: AnyPath, result: ModelResult, report: ValidationReport | None = None, model: Model | AnyPath | None = None
) -> None:
    """Write the page that a result names, under the folder of the batch.

    Args:
        out: the folder of the batch.
        result: the record of the model.
        report: of the validation; without it, or if the net was not exported, the page has the reason and the
            diagnostics of the record.
        model: to draw, a Caffe2 model or the path of an ONNX model.

    Raises OSError.
    """
    target = out / result.page
    target.parent.mkdir(parents=True, exist_ok=True)
    home = "../" * (len(PurePosixPath(result.page).parts) - 1) + "index.html"
    picture = _picture(model, report or ValidationReport(result.model, "", (), ()), result.findings)
    if report is None or result.verdict == "not exported":  # a page of the report would have the report's verdict
        text = failure_page(result, home, picture)
    else:
        exported = [f"exported: {result.onnx}"] if result.onnx else []
        text = page(replace(report, notes=(*exported, *result.notes)), picture, home)
    with replacing(target) as file:
        file.write(text.encode())


def _picture(model: Model | AnyPath | None, report: ValidationReport, findings: Sequence[Mapping[str, Any]]) -> str:
    if model is None:
        return ""
    try:
        return error_picture(model, report, findings)
    except BridgeError:  # of a file that cannot be read there is no picture
        return ""


def failure_page(result: ModelResult, home: str, picture: str = "") -> str:
    """Return the page of a model that was not compared, from its record."""
    return fill(
        _TEMPLATE,
        model=escape(result.model),
        verdict=escape(result.verdict),
        mark=mark_of(result.verdict),
        home=escape(home),
        reason="<br>".join(map(escape, (result.reason, *result.notes))),
        counts=f"{result.operators} operators, {result.body_operators} in bodies; {result.seconds:.1f} s",
        findings=_findings(result.findings),
        picture=f"<h2>The net</h2>{picture}" if picture else "",
    )


def _findings(findings: Sequence[Mapping[str, Any]]) -> str:
    if not findings:
        return ""
    head = "".join(f"<th>{name}</th>" for name in ("severity", "code", "operator", "reason", "hint"))
    body = "\n".join(map(_row, findings))
    return (
        '<h2>Diagnostics of the export</h2><div class="scroll"><table id="findings" class="sortable">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row(finding: Mapping[str, Any]) -> str:
    texts = (finding["severity"], finding["code"], finding["place"], finding["reason"], finding["hint"])
    return f"<tr>{''.join(f'<td>{escape(str(text))}</td>' for text in texts)}</tr>"

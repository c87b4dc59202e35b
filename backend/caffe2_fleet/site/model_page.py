"""The page of one model of a batch: verdict and proof, export, diagnostics, and the report if there is one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import quote

from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.model import Model
from caffe2_bridge.storage import AnyPath
from caffe2_fleet.result import ModelResult
from caffe2_fleet.site.html import mark_of
from caffe2_frontend.interop.files.onnx_files import replacing
from caffe2_validation.render.page import Verdict, page
from caffe2_validation.render.picture import error_picture
from caffe2_validation.render.template import fill
from caffe2_validation.report import ValidationReport

_TEMPLATE: Final = Path(__file__).with_name("failure.html")
# What verdicts prove that are not those of a validation.
_PROOFS: Final[Mapping[str, str]] = {
    "not exported": "Nothing is proved of an export, as there is none; what was compared is the net itself.",
    "not covered": "Nothing is proved: a part of the model does not convert, and nothing was compared.",
    "could not run": "Nothing is proved: the model could not be read, or nothing ran it.",
    "crashed": "Nothing is proved: the process that ran the model did not end as it should.",
}


def write_model_page(
    out: AnyPath, result: ModelResult, report: ValidationReport | None = None, model: Model | AnyPath | None = None
) -> None:
    """Write the page that a result names, under the folder of the batch.

    Args:
        out: the folder of the batch.
        result: the record of the model.
        report: of the validation; None if it did not run.
        model: to draw, a Caffe2 model or the path of an ONNX model.

    Raises OSError.
    """
    target = out / result.page
    target.parent.mkdir(parents=True, exist_ok=True)
    root = "../" * (len(PurePosixPath(result.page).parts) - 1)
    picture = _picture(model, report or ValidationReport(result.model, "", (), ()), result.findings)
    with replacing(target) as file:
        file.write(model_page(result, report, picture, root).encode())


def model_page(result: ModelResult, report: ValidationReport | None = None, picture: str = "", root: str = "") -> str:
    """Return the page of a model; ``root`` is the address of the batch's folder, with a slash at its end."""
    export, home = "\n".join(_export(result, root)), f"{root}index.html"
    verdict = Verdict(result.verdict, mark_of(result.verdict), _PROOFS.get(result.verdict, ""))
    if report is not None:
        own = verdict if result.verdict == "not exported" else None
        report = replace(report, model=result.model, notes=tuple(result.notes))
        return page(report, picture, home, verdict=own, export=export)
    return fill(
        _TEMPLATE,
        model=escape(result.model),
        verdict=escape(verdict.text),
        mark=verdict.mark,
        proof=escape(verdict.proof),
        home=escape(home),
        counts=f"{result.operators} operators, {result.body_operators} in bodies; {result.seconds:.1f} s",
        export=export,
        picture=f"<h2>The net</h2>{picture}" if picture else "",
    )


def _picture(model: Model | AnyPath | None, report: ValidationReport, findings: Sequence[Mapping[str, Any]]) -> str:
    if model is None:
        return ""
    try:
        return error_picture(model, report, findings)
    except BridgeError:  # of a file that cannot be read there is no picture
        return ""


def _export(result: ModelResult, root: str) -> Iterator[str]:
    """Yield the exported file or why there is none, the repro, and the diagnostics with their hints."""
    if result.onnx:
        yield f'<p id="exported">Exported: {_link(root, result.onnx)}, {result.onnx_bytes:,} bytes.</p>'
    elif result.format == "ONNX":
        yield '<p id="exported">The model is an ONNX model: it was imported, and there is nothing to export.</p>'
    else:
        yield '<p id="exported">There is no exported file.</p>'
    if result.reason:
        yield f'<div class="card" id="reason">{"<br>".join(map(escape, (result.reason, *result.notes)))}</div>'
    if result.repro:
        yield (
            f'<p id="repro">The operator that differs, ready to run: {_link(root, f"{result.repro}/")} '
            "(<code>python repro.py</code> in the folder of a runtime)</p>"
        )
    yield _findings(result.findings)


def _link(root: str, path: str) -> str:
    return f'<a href="{quote(root + path)}"><code>{escape(path)}</code></a>'


def _findings(findings: Sequence[Mapping[str, Any]]) -> str:
    """Return the diagnostics as a list, unfolded if one is an error."""
    if not findings:
        return ""
    unfolded = " open" if any(finding["severity"] == "error" for finding in findings) else ""
    return (
        f'<details id="findings"{unfolded}><summary>Diagnostics of the export ({len(findings)})</summary>'
        f"<ul>{''.join(map(_finding, findings))}</ul></details>"
    )


def _finding(finding: Mapping[str, Any]) -> str:
    severity, code, place, reason, hint = (
        escape(str(finding[name])) for name in ("severity", "code", "place", "reason", "hint")
    )
    mark = {"error": "disagree", "warning": "could"}.get(severity, "dim")
    text = f'<b class="{mark}">{severity}</b> <code>{place}</code>: {reason} <span class="dim">[{code}]</span>'
    return f"<li>{text}{f'<br>Hint: {hint}' if hint else ''}</li>"

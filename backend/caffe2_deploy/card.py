"""The card of a model: one page of what is known of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from typing import Any, Final

from caffe2_deploy.contents import Contents, Port

_LISTED: Final = 12


def facts(contents: Contents, digests: Mapping[str, str]) -> dict[str, Any]:
    """Return what the card says, as plain data: the file ``card.json``; ``digests`` are of the model's files."""
    return {
        "schema": 1,
        "name": contents.name,
        "licence": contents.licence or None,
        "made_by": f"caffe2-bridge {version('caffe2-bridge')}",
        "opset": contents.opset,
        "ir_version": contents.model.ir_version,
        "inputs": {port.name: str(port) for port in contents.inputs},
        "outputs": {port.name: str(port) for port in contents.outputs},
        "batch_dim": contents.batch,
        "operators": dict(contents.operators.most_common()),
        "parameter_bytes": contents.parameter_bytes,
        "verdict": contents.report.verdict_text,
        "compared_with_caffe2": contents.report.compared_with_caffe2,
        "expected_outputs_computed_by": contents.computed_by,
        "milliseconds": round(contents.milliseconds, 3),
        "sha256": dict(digests),
    }


def page(contents: Contents, found: Mapping[str, Any], usage: str) -> str:
    """Return the card in Markdown, with its facts; ``usage`` says how the folder is served."""
    return "\n".join(_lines(contents, found, usage)) + "\n"


def _lines(contents: Contents, found: Mapping[str, Any], usage: str) -> Iterator[str]:
    yield f"# {contents.name}"
    yield ""
    yield f"A Caffe2 net, exported to ONNX by {found['made_by']}: opset {contents.opset}."
    yield ""
    yield usage.strip()
    yield ""
    yield "| | name | type and dims |"
    yield "|---|---|---|"
    yield from _ports("input", contents.inputs)
    yield from _ports("output", contents.outputs)
    yield ""
    commonest = contents.operators.most_common(_LISTED)
    more = len(contents.operators) - len(commonest)
    listed = ", ".join(f"{count} {kind}" for kind, count in commonest) + (f", {more} other types" if more else "")
    rows = {
        "compared": contents.report.verdict_text,
        "expected outputs": f"computed by {contents.computed_by}",
        "time": f"{contents.milliseconds:.2f} ms for the sample, one thread of the machine that made this",
        "operators": listed,
        "weights": f"{contents.parameter_bytes:,} bytes",
        "licence": contents.licence or "not stated",
        **{f"sha256 of `{name}`": f"`{value}`" for name, value in found["sha256"].items()},
    }
    yield "| | |"
    yield "|---|---|"
    for name, text in rows.items():
        yield f"| {name} | {text} |"


def _ports(kind: str, ports: Iterable[Port]) -> Iterator[str]:
    for port in ports:
        yield f"| {kind} | `{port.name}` | {port} |"

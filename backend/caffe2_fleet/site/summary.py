"""The summary of a batch: ``summary.json``, the pages of all models, and the table as files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.storage import AnyPath
from caffe2_fleet import table
from caffe2_fleet.arrow import has_arrow
from caffe2_fleet.models.discovery import Skipped
from caffe2_fleet.result import VERDICTS, ModelResult
from caffe2_fleet.site import causes, trends
from caffe2_fleet.site.index import index_page
from caffe2_fleet.site.trends import read_summary, write_trends
from caffe2_frontend.interop.files.onnx_files import replacing
from caffe2_validation.options import ValidationOptions
from caffe2_validation.versions import package_versions

SCHEMA: Final = 3
_OTHERS: Final = {
    causes.NAME: "causes", trends.NAME: "trends", table.CSV_NAME: "CSV", table.PARQUET_NAME: "Parquet",
    "summary.json": "JSON",
}  # fmt: skip


def write_summary(
    out: AnyPath, results: Sequence[ModelResult], skipped: Sequence[Skipped], options: ValidationOptions, command: str
) -> None:
    """Write the summary, its pages and its table to ``out``, the folder of the batch. Raises OSError.

    If results changed since the summary that is there, ``trends.html`` compares both.
    """
    counts = Counter(result.verdict for result in results)
    before = _earlier(out)
    summary: dict[str, Any] = {
        "schema": SCHEMA, "command": command, "versions": package_versions(),
        "tolerances": {name: vars(allowed) for name, allowed in options.tolerances.items()},
        "runtimes": list(options.runtimes or ()), "random_weights": options.random_weights,
        "counts": {verdict: counts[verdict] for verdict in VERDICTS},
        "models": [vars(result) for result in results],
        "skipped": [vars(file) for file in skipped],
    }  # fmt: skip
    if before is not None and [r.key for r in before["models"]] != [r.key for r in results]:
        write_trends(before, summary | {"models": results, "folder": str(out)}, out / trends.NAME)
    with replacing(out / causes.NAME) as file:
        file.write(causes.causes_page(results).encode())
    table.write_csv(results, out / table.CSV_NAME)
    if has_arrow():
        table.write_parquet(results, out / table.PARQUET_NAME)
    with replacing(out / "summary.json") as file:
        file.write(json.dumps(summary).encode())
    with replacing(out / "index.html") as file:
        others = {name: text for name, text in _OTHERS.items() if (out / name).exists()}
        file.write(index_page(summary, others).encode())


def _earlier(out: AnyPath) -> dict[str, Any] | None:
    """Return the summary of the run before; None if there is none that can be read."""
    try:
        return read_summary(out)
    except (BridgeError, OSError):
        return None

"""The table of results: CSV and Parquet files with a row for each model. docs/fleets.md describes the columns."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from caffe2_bridge.diagnostics.printable import printable
from caffe2_bridge.storage import AnyPath
from caffe2_fleet.arrow import import_arrow
from caffe2_fleet.result import ModelResult
from caffe2_frontend.interop.files.onnx_files import replacing

CSV_NAME: Final = "results.csv"
PARQUET_NAME: Final = "results.parquet"
# By name: the type in Parquet; ``map[...]`` has texts as keys.
_COLUMNS: Final[Mapping[str, str]] = {
    "model": "string", "owner": "string", "hash": "string", "status": "string", "reason": "string", "cause": "string",
    "attempts": "int64", "findings": "map[int64]", "errors": "map[int64]", "operators": "map[int64]",
    "operator_count": "int64", "body_operator_count": "int64", "bytes": "int64", "onnx_bytes": "int64",
    "seconds": "float64", "times": "map[float64]", "worst": "float64", "differences": "map[float64]", "cases": "int64",
    "random_weights": "int64", "onnx": "string", "page": "string", "versions": "map[string]",
    "compared_with_caffe2": "bool_", "compared_with_net_evaluator": "bool_", "format": "string", "exported": "bool_",
    "repro": "string",
}  # fmt: skip
_FORMULAS: Final = ("=", "+", "-", "@")


def write_parquet(results: Sequence[ModelResult], path: AnyPath) -> None:
    """Write the table as Parquet. Raises OSError, and RunError if PyArrow is not installed."""
    arrow = import_arrow()

    def type_of(name: str) -> Any:
        inner = name.removeprefix("map[").removesuffix("]")
        found = getattr(arrow, inner)()
        return found if inner == name else arrow.map_(arrow.string(), found)

    schema = arrow.schema([(name, type_of(kind)) for name, kind in _COLUMNS.items()])
    rows = [
        {name: list(value.items()) if isinstance(value, Mapping) else value for name, value in _row(result).items()}
        for result in results
    ]
    with replacing(path) as file:
        arrow.parquet.write_table(arrow.Table.from_pylist(rows, schema), file)


def write_csv(results: Sequence[ModelResult], path: AnyPath) -> None:
    """Write the table as CSV, maps as JSON. Raises OSError.

    Names in models are untrusted: a text that a spreadsheet would take for a formula begins with an apostrophe.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(_COLUMNS)
    for result in results:
        row = _row(result)
        writer.writerow([_cell(row[name]) for name in _COLUMNS])
    with replacing(path) as file:
        file.write(text.getvalue().encode())


def _cell(value: Any) -> Any:
    if isinstance(value, Mapping):
        return json.dumps(value)
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULAS) else value


def _row(result: ModelResult) -> dict[str, Any]:
    codes = Counter(str(finding["code"]) for finding in result.findings)
    errors = Counter(str(finding["code"]) for finding in result.findings if finding["severity"] == "error")
    return {
        "model": printable(result.model), "owner": result.owner, "hash": result.key, "status": result.verdict,
        "reason": printable(result.reason), "cause": printable(result.cause), "attempts": result.attempts,
        "findings": codes, "errors": errors, "operators": result.types, "operator_count": result.operators,
        "body_operator_count": result.body_operators, "bytes": result.bytes, "onnx_bytes": result.onnx_bytes,
        "seconds": result.seconds, "times": result.times, "worst": result.worst, "differences": result.differences,
        "cases": result.cases, "random_weights": result.weights, "onnx": result.onnx, "page": result.page,
        "versions": result.versions, "compared_with_caffe2": result.compared_with_caffe2,
        "compared_with_net_evaluator": result.compared_with_net_evaluator, "format": result.format,
        "exported": bool(result.onnx), "repro": result.repro,
    }  # fmt: skip

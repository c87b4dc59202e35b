"""The table of results: a Parquet file with a row for each model. docs/fleets.md describes the columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from caffe2_bridge.diagnostics.printable import printable
from caffe2_bridge.storage import AnyPath
from caffe2_fleet.arrow import import_arrow
from caffe2_fleet.result import ModelResult
from caffe2_frontend.interop.files.onnx_files import replacing

NAME: Final = "results.parquet"


def write_table(results: Sequence[ModelResult], path: AnyPath) -> None:
    """Write the table. Raises OSError, and RunError if PyArrow is not installed."""
    arrow = import_arrow()
    text, integer, number = arrow.string(), arrow.int64(), arrow.float64()
    schema = arrow.schema(
        [
            ("model", text), ("owner", text), ("hash", text), ("status", text), ("reason", text), ("cause", text),
            ("attempts", integer), ("findings", arrow.map_(text, integer)), ("errors", arrow.map_(text, integer)),
            ("operators", arrow.map_(text, integer)), ("operator_count", integer), ("body_operator_count", integer),
            ("bytes", integer), ("onnx_bytes", integer), ("seconds", number), ("times", arrow.map_(text, number)),
            ("worst", number), ("differences", arrow.map_(text, number)), ("cases", integer),
            ("random_weights", integer), ("onnx", text), ("page", text), ("versions", arrow.map_(text, text)),
            ("compared_with_caffe2", arrow.bool_()), ("compared_with_net_evaluator", arrow.bool_()),
        ]
    )  # fmt: skip
    with replacing(path) as file:
        arrow.parquet.write_table(arrow.Table.from_pylist([_row(result) for result in results], schema), file)


def _row(result: ModelResult) -> dict[str, Any]:
    codes = Counter(str(finding["code"]) for finding in result.findings)
    errors = Counter(str(finding["code"]) for finding in result.findings if finding["severity"] == "error")
    maps = {
        "findings": codes, "errors": errors, "operators": result.types, "times": result.times,
        "differences": result.differences, "versions": result.versions,
    }  # fmt: skip
    return {name: list(pairs.items()) for name, pairs in maps.items()} | {
        "model": printable(result.model), "owner": result.owner, "hash": result.key, "status": result.verdict,
        "reason": printable(result.reason), "cause": printable(result.cause), "attempts": result.attempts,
        "operator_count": result.operators, "body_operator_count": result.body_operators, "bytes": result.bytes,
        "onnx_bytes": result.onnx_bytes, "seconds": result.seconds, "worst": result.worst, "cases": result.cases,
        "random_weights": result.weights, "onnx": result.onnx, "page": result.page,
        "compared_with_caffe2": result.compared_with_caffe2,
        "compared_with_net_evaluator": result.compared_with_net_evaluator,
    }  # fmt: skip

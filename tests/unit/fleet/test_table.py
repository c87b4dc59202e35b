"""The table of results, as CSV and as Parquet."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from caffe2_fleet.result import ModelResult
from caffe2_fleet.table import write_csv, write_parquet

FINDING = {"code": "c", "severity": "error", "location": {"op_type": "X"}}
RESULTS = [
    ModelResult('a,\n"b"', "agree", types={"Relu": 2}, worst=-0.5, onnx="onnx/a.onnx", compared_with_caffe2=True),
    ModelResult("=cmd|' /C calc'!A0", "not covered", "@x", "-1+1", findings=[FINDING, FINDING], format="Caffe2"),
]  # fmt: skip


def read_csv(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_bytes().decode(), newline="")))


def test_csv_has_the_values_of_parquet(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    write_csv(RESULTS, tmp_path / "t.csv")
    write_parquet(RESULTS, tmp_path / "t.parquet")
    first, _ = read_csv(tmp_path / "t.csv")
    (row, _) = parquet.read_table(tmp_path / "t.parquet").to_pylist(maps_as_pydicts="strict")
    assert list(first) == list(row)
    for name, value in row.items():
        text = first[name]
        if isinstance(value, dict):
            assert json.loads(text) == value
        elif isinstance(value, bool):
            assert text == str(value).lower()
        else:
            assert text == ("" if value is None else str(value))
    assert (row["exported"], first["compared_with_caffe2"], first["worst"]) == (True, "true", "-0.5")


def test_texts_are_no_formulas(tmp_path: Path) -> None:
    write_csv(RESULTS, tmp_path / "t.csv")
    _, row = read_csv(tmp_path / "t.csv")
    assert (row["model"][:5], row["reason"], row["cause"]) == ("'=cmd", "'@x", "'-1+1")
    assert json.loads(row["findings"]) == {"c": 2}
    assert (row["exported"], row["format"]) == ("false", "Caffe2")

"""Records of a batch: what is done is found again, and what is damaged or of another key is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from caffe2_fleet.batch_records import Records
from caffe2_fleet.result import ModelResult


def result(name: str = "m") -> ModelResult:
    return ModelResult(model=name, key="k", verdict="agree", reason="")


@pytest.mark.parametrize("name", ["m", "a/b", "a-b", "x" * 300, "\udcff", "é" * 90])
def test_records_are_found_again(tmp_path: Path, name: str) -> None:
    records = Records(tmp_path)
    records.write(result(name))
    assert Records(tmp_path).find(name, "k") == result(name)


def test_names_that_look_alike_have_records_of_their_own(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.write(result("a/b"))
    assert records.find("a-b", "k") is None


def test_another_key_verdict_or_damage_is_no_record(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.write(result())
    assert records.find("m", "other") is None
    (file,) = (tmp_path / "results").iterdir()
    text = file.read_text()
    for damaged in (text[:-5], text.replace("agree", "certain"), "[]", text.replace("verdict", "unknown")):
        file.write_text(damaged)
        assert records.find("m", "k") is None


def test_a_record_needs_the_files_that_it_names(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.write(replace(result(), onnx="m.onnx"))
    assert records.find("m", "k") is None
    (tmp_path / "m.onnx").touch()
    assert records.find("m", "k") is not None

"""Loss curves."""

from __future__ import annotations

import math
import re
from pathlib import Path
from xml.etree import ElementTree as ET

from caffe2_backend.training.checkpoint import Checkpoint
from caffe2_cli.output.loss_page import averages, curve, sparkline, write_loss_page


def test_the_page_has_the_curve(tmp_path: Path) -> None:
    losses = [1 / (i + 1) for i in range(200)]
    write_loss_page(tmp_path / "loss.html", Checkpoint({}, losses, "a<b"), "net & co", "caffe2-bridge train net")
    text = (tmp_path / "loss.html").read_text()
    assert "a&lt;b from 1 to 0.005" in text
    assert "net &amp; co" in text
    assert text.count("<tr>") == 52


def test_the_curve_falls_from_left_to_right() -> None:
    svg = ET.fromstring(curve([3.0, 2.0, math.nan, 1.0]))  # noqa: S314 - our own
    (line,) = (part for part in svg.iter() if part.tag.endswith("polyline"))
    points = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
    assert len(points) == 3
    assert points == sorted(points)
    assert [y for _, y in points] == sorted(y for _, y in points)


def test_long_curves_are_averages() -> None:
    points = averages([float(i % 2) for i in range(10_000)], 100)
    assert len(points) == 100
    assert {y for _, y in points} == {0.5}


def test_one_loss_and_equal_losses() -> None:
    assert sparkline([2.0]) == "▁"
    assert "nan" not in curve([2.0])
    assert re.search(r"polyline points=\"[\d.,]+ [\d.,]+\"", curve([1.0, 1.0]))


def test_a_line_of_bars() -> None:
    assert sparkline([0.0, 1.0, math.inf]) == "▁█?"
    assert len(sparkline([float(i) for i in range(1000)])) <= 60

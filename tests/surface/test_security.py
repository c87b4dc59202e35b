"""SECURITY.md as an assurance case: threats are numbered, each at a boundary, with tests that exist."""

from __future__ import annotations

import re
from typing import Final

import pytest
from support.paths import ROOT

TEXT: Final = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
THREAT: Final = re.compile(r"^### (T\d+): (.+) \((B\d+)\)$", re.MULTILINE)
BOUNDARIES: Final = re.findall(r"^\| (B\d+) \|", TEXT, re.MULTILINE)
CASES: Final = {
    match[1]: (match[3], section.partition("\n#")[0])
    for match, section in zip(THREAT.finditer(TEXT), THREAT.split(TEXT)[4::4], strict=True)
}


def test_threats_and_boundaries_are_numbered() -> None:
    assert list(CASES) == [f"T{number}" for number in range(1, len(CASES) + 1)]
    assert len(CASES) > 10
    assert len(CASES) == TEXT.count("### T")
    assert {boundary for boundary, _ in CASES.values()} == set(BOUNDARIES)


@pytest.mark.parametrize("threat", CASES)
def test_a_threat_has_a_counter_measure_and_tests(threat: str) -> None:
    measure, separator, tests = CASES[threat][1].partition("\nTests: ")
    assert separator
    assert len(measure.split()) > 10
    found = [ROOT / name for name in re.findall(r"`(tests/[\w/.]+)`", tests)]
    assert found
    for path in found:
        files = path.rglob("test_*.py") if path.is_dir() else [path]
        assert any("def test_" in file.read_text(encoding="utf-8") for file in files)

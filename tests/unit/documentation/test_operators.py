"""The page of operators."""

from __future__ import annotations

from documentation.operators import operators_page


def test_an_operator_has_its_signature_arguments_converter_and_cases() -> None:
    page = "\n".join(operators_page())
    section = page.partition("\n## FC\n")[2].partition("\n## ")[0]
    assert "    X[*D{axis=1}, ~K:1]; W[~M{axis_w=1}, ~K:1], b[M] -> Y[*D, M]\n" in section
    assert "`axis`, `axis_w`" in section
    assert "`fully_connected` in `ops/nn/linear.py`" in section
    assert int(section.partition("Recorded cases: ")[2]) > 10

"""Tutorials as notebooks."""

from __future__ import annotations

from pathlib import Path

import pytest
from documentation import notebooks

pytest.importorskip("jupytext")
SOURCE = "# # A tutorial\n\n# %%\nimport json\nimport no_such_module.inside\n\n# %%\nfrom nothing_either import name\n"


def test_a_tutorial_that_imports_what_is_not_installed_has_a_page_without_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "one.py"
    source.write_text(SOURCE)
    assert notebooks.missing_modules(source) == ["no_such_module", "nothing_either"]
    monkeypatch.setattr(notebooks, "tutorials", lambda: [source])
    notebooks.write_tutorials(tmp_path / "pages")
    assert "import no_such_module.inside" in (tmp_path / "pages" / "one.md").read_text()
    assert "one.py is not run: no_such_module, nothing_either is not installed" in capsys.readouterr().err

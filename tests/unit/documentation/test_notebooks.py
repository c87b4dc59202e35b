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


def test_a_notebook_sets_itself_up_and_its_page_does_not_show_how(tmp_path: Path) -> None:
    source = tmp_path / "one.py"
    source.write_text('# %% [markdown]\n# # A tutorial\n\n# %%\nimport torch\nprint("models/char_rnn")\n')
    notebook = notebooks.read_notebook(source)
    setup = notebook.cells[1].source
    assert "find_spec" in setup
    assert "['torch']" in setup
    assert "[cpu,torch]" in setup
    assert "copytree" in setup
    page = notebooks.to_markdown(notebook, "one")
    assert page.startswith("# A tutorial\n\n[This tutorial as a notebook](one.ipynb)")
    assert "find_spec" not in page


def test_the_setup_makes_what_is_missing_from_a_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "one.py"
    source.write_text('import json\nprint("models/char_rnn")\n')
    model = tmp_path / "caffe2-bridge" / "models" / "char_rnn"
    model.mkdir(parents=True)
    (model / "predict_net.pb").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "nothing")
    exec(notebooks.setup_of(source), {})  # noqa: S102 - our own code
    assert (tmp_path / "models" / "char_rnn" / "predict_net.pb").exists()

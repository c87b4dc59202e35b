"""The documentation site is built without a broken link, and its tutorials run."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from documentation.notebooks import missing_modules, to_markdown, tutorials
from documentation.pages import ROOT
from support.paths import CHAR_RNN

pytestmark = pytest.mark.slow
_LOADED = re.compile(
    r"<(?:script|img|iframe)[^>]+src=\"(https?:[^\"]+)|<link[^>]+stylesheet[^>]+href=\"(https?:[^\"]+)"
)


@pytest.mark.skipif(not importlib.util.find_spec("mkdocstrings"), reason="MkDocs is not installed (group docs)")
def test_the_site_is_complete_and_loads_nothing_from_the_network(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-W", "ignore", "-m", "documentation", "--no-run", "--outdir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - this Python
    assert done.returncode == 0, done.stderr
    site = tmp_path / "site"
    pages = {path.relative_to(site).as_posix(): path.read_text() for path in site.rglob("*.html")}
    assert {name: _LOADED.findall(text) for name, text in pages.items() if _LOADED.search(text)} == {}
    assert 'id="caffe2_frontend.exporter.to_onnx"' in pages["reference/caffe2_frontend.html"]
    assert "SparseLengthsSum" in pages["coverage.html"]
    assert "drawings/rooms.svg" in pages["architecture.html"]
    assert "assets/iframe-worker.js" in pages["index.html"]  # the search works without a server
    assert len([name for name in pages if name.startswith("tutorials/")]) == len(tutorials())
    assert 'href="try/index.html"' in pages["install.html"]
    assert {"settings.json", "app.js"} < {path.name for path in (site / "try").iterdir()}


@pytest.mark.parametrize("source", tutorials(), ids=lambda path: path.stem)
def test_a_tutorial_runs(source: Path, tmp_path: Path) -> None:
    for module in missing_modules(source):
        pytest.importorskip(module)
    shutil.copytree(CHAR_RNN, tmp_path / "models" / "char_rnn")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": ""}
    command = [sys.executable, str(source)]
    done = subprocess.run(  # noqa: S603 - our own tutorials
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not importlib.util.find_spec("jupytext"), reason="jupytext is not installed (group docs)")
def test_the_page_of_a_notebook_shows_what_cells_print() -> None:
    import nbformat
    from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

    printed = new_output("stream", name="stdout", text="3\n")
    drawn = new_output("execute_result", {"text/plain": "<Curve>", "image/svg+xml": "<svg>\n</svg>"})
    cells = [
        new_markdown_cell("# Title"),
        new_code_cell("print(3)", outputs=[printed]),
        new_code_cell("x = 1"),
        new_code_cell("c", outputs=[drawn]),
    ]
    text = to_markdown(nbformat.v4.new_notebook(cells=cells), "page")
    assert text.startswith("# Title\n\n[This tutorial as a notebook](page.ipynb)")
    assert "```python\nprint(3)\n```\n\n```{.text .output}\n3\n```\n\n```python\nx = 1\n```\n\n" in text
    assert text.endswith("```python\nc\n```\n\n<figure><svg></svg></figure>\n")

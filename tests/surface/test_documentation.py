"""The documents name files that exist, and link to pages that exist."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Final

import pytest
from support.paths import CHAR_RNN, ROOT

from caffe2_bridge import load
from caffe2_frontend import to_onnx

WRITTEN: Final = {"repro.py"}  # by commands
GENERATED: Final = ROOT / "docs" / "coverage.md"  # names groups of cases
PAGES: Final = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "benchmarks" / "README.md"]
FOLDERS: Final = "bridge|frontend|backend|pytorch|tests|scripts|docs|models|benchmarks"
FILE: Final = re.compile(rf"`((?:{FOLDERS})/[\w./-]*[\w/])`")
SHORT: Final = re.compile(r"`([a-z0-9_/]+\.py)`")
LINK: Final = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", sorted({*PAGES} - {GENERATED}), ids=lambda page: str(page.relative_to(ROOT)))
def test_files_and_links_exist(page: Path) -> None:
    text = page.read_text()
    assert sorted(name for name in FILE.findall(text) if not (ROOT / name).exists()) == []
    assert sorted(link for link in LINK.findall(text) if not (page.parent / link).exists()) == []


@pytest.mark.parametrize(
    "page", ["architecture.md", "debugging.md", *sorted(page.name for page in ROOT.glob("docs/notes-*.md"))]
)
def test_short_paths_end_a_path(page: str) -> None:
    """``recurrent/match.py`` is a file of some package."""
    known = [f"/{path.relative_to(ROOT)}" for folder in FOLDERS.split("|") for path in (ROOT / folder).rglob("*.py")]
    named = set(SHORT.findall((ROOT / "docs" / page).read_text())) - WRITTEN
    assert sorted(name for name in named if not any(path.endswith(f"/{name}") for path in known)) == []


def test_the_picture_of_an_lstm_shows_its_export() -> None:
    """The boxes are the operators of the net and the nodes of the model; those for lengths are counted."""
    texts = re.findall(
        r"<text[^>]*>([^<]*)</text>", (ROOT / "docs" / "assets" / "lstm.svg").read_text(encoding="utf-8")
    )
    net = load(CHAR_RNN).predict_net
    (step,) = (arg.n for op in net.op for arg in op.arg if arg.name == "step_net")
    nodes = [node.op_type for node in to_onnx(load(CHAR_RNN)).graph.node]
    shown = ["LSTM", "MatMul", "Add", "Softmax"]
    assert [nodes.count(name) for name in shown] == [1] * len(shown)
    drawn = [text for text in texts if re.fullmatch(r"[A-Z]\w+", text)]
    operators = [op.type for op in [*net.op, *step.op] if op.type != "RecurrentNetwork"]
    assert sorted(drawn) == sorted([*operators, *shown])
    assert f"{len(nodes) - len(shown)} small nodes" in texts


def test_links_of_the_metadata_are_absolute() -> None:
    text = "[a](docs/a.md#b) ![p](docs/p.svg) [c](https://d.org) [e](#f)"
    found = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert found is not None
    assert found.loader is not None
    hook = importlib.util.module_from_spec(found)
    found.loader.exec_module(hook)
    made = hook.with_absolute_links(text, "https://host/r")
    assert made == (
        "[a](https://host/r/blob/HEAD/docs/a.md#b) ![p](https://host/r/raw/HEAD/docs/p.svg) [c](https://d.org) [e](#f)"
    )

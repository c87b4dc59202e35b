"""Every block of the documentation runs, from the top of its page to the bottom, beside the files that it names."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from support.documentation.files import put_files
from support.documentation.pages import Block, blocks_of, pattern_of
from support.documentation.runs import PageRun
from support.paths import ROOT

from caffe2_backend.ops import INFERENCES
from caffe2_backend.ops import REGISTERED as IMPORTERS
from caffe2_frontend.ops.index import REGISTERED as CONVERTERS

LANGUAGES: Final = {"console", "python", "sh"}
PAGES: Final = {page.name: blocks_of(page) for page in sorted([ROOT / "README.md", *ROOT.glob("docs/*.md")])}
RUN: Final = {name: [b for b in blocks if b.language in LANGUAGES and not b.excuse] for name, blocks in PAGES.items()}

pytestmark = pytest.mark.usefixtures("empty_workspace")


@pytest.fixture(autouse=True)
def log_levels() -> Iterator[None]:
    """Undo what a page does to log levels: pytest keeps what is logged in a test, and other tests measure memory."""
    yield
    for logger in logging.root.manager.loggerDict.values():
        if isinstance(logger, logging.Logger) and logger.name.startswith("caffe2_"):
            logger.setLevel(logging.NOTSET)


@pytest.fixture(autouse=True)
def own_operators() -> Iterator[None]:
    """Undo what a page registers."""
    yield
    for table in (CONVERTERS, IMPORTERS, INFERENCES):
        table.clear()


def run_page(name: str, blocks: list[Block], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_files(name, folder)
    monkeypatch.chdir(folder)
    page = PageRun(folder)
    for block in blocks:
        page.run(block)


@pytest.mark.parametrize("name", [name for name, blocks in RUN.items() if any(not b.needs for b in blocks)])
def test_every_block_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_page(name, [block for block in RUN[name] if not block.needs], tmp_path, monkeypatch)


@pytest.mark.oracle
@pytest.mark.parametrize("name", [name for name, blocks in RUN.items() if any(b.needs == "caffe2" for b in blocks)])
def test_blocks_with_real_caffe2_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_page(name, [block for block in RUN[name] if block.needs == "caffe2"], tmp_path, monkeypatch)


@pytest.mark.torch
@pytest.mark.parametrize("name", [name for name, blocks in RUN.items() if any(b.needs == "torch" for b in blocks)])
def test_blocks_with_pytorch_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_page(name, [block for block in RUN[name] if block.needs == "torch"], tmp_path, monkeypatch)


def test_what_a_block_needs_is_known() -> None:
    assert {block.needs for blocks in PAGES.values() for block in blocks} <= {"", "caffe2", "torch"}


def test_every_block_has_a_language() -> None:
    assert {block.language for blocks in PAGES.values() for block in blocks} <= {
        *LANGUAGES,
        "cpp",
        "dockerfile",
        "text",
        "toml",
    }


@pytest.mark.parametrize(
    ("shown", "printed", "fits"),
    [
        ("model.onnx: 485,840 bytes", "note\nmodel.onnx: 485,900 bytes", True),
        ("largest difference 9.7e-05", "largest difference 1.2e-04", True),
        ("a: ...; b", "a: 1\n2; b", True),
        ("agree", "disagrees", True),
        ("no such line", "other", False),
        ("ends", "end", False),
    ],
)
def test_what_a_command_must_print(shown: str, printed: str, fits: bool) -> None:
    assert bool(pattern_of(shown).search(printed)) == fits

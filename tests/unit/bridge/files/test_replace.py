"""Two saves in a row, the first killed, the second ended at each of its calls: a reader finds the files of one save.

``caffe2_bridge.files.replace`` writes them and ``caffe2_bridge.files.open_files`` opens them, in a process of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from support.storage import early_ends
from support.storage.early_ends import End, Read, Save

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")


@pytest.fixture(scope="module")
def small_process() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield pool


@pytest.mark.parametrize("second", [early_ends.die, early_ends.interrupt, early_ends.refuse])
@pytest.mark.parametrize(
    ("write", "look", "exchanged", "rename"),
    [
        (early_ends.save, early_ends.read, True, 2),
        (early_ends.save, early_ends.read, True, 3),
        (early_ends.save_folder, early_ends.read_folder, True, 2),
        (early_ends.save_folder, early_ends.read_folder, False, 2),
    ],
    ids=["files, none renamed", "files, one renamed", "folder", "folder in two steps"],
)
def test_two_saves_that_end_early(
    tmp_path: Path,
    small_process: ProcessPoolExecutor,
    write: Save,
    look: Read,
    exchanged: bool,
    rename: int,
    second: End,
) -> None:
    ends = small_process.submit(early_ends.two_early_ends, tmp_path, write, look, exchanged, rename, second)
    assert ends.result() > 5

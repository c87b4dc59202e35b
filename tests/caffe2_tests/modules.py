"""Caffe2's test modules."""

from __future__ import annotations

from pathlib import Path
from typing import Final

# Folders of caffe2/python with tests of programs, and the one with tests of operators.
FOLDERS: Final = (".", "layers", "modeling", "models", "models/seq2seq", "predictor", "helpers", "test")
OPERATORS: Final = "operator_test"


def find_modules(copy: Path, *, operators: bool = False) -> list[str]:
    """Return the names of test modules under ``caffe2.python``, sorted; those of operators in addition, on request."""
    root = copy / "caffe2" / "python"
    folders = (*FOLDERS, OPERATORS) if operators else FOLDERS
    found = {
        ".".join(path.relative_to(root).with_suffix("").parts)
        for folder in folders
        for path in (root / folder).glob("*_test.py")
    }
    return sorted(found)

"""Names of blobs in errors of sessions that nets share."""

from __future__ import annotations

import pytest

from caffe2_backend.runtime.program.error_names import renamed
from caffe2_bridge.diagnostics import RunError

NAMES = {"a": "x", "a/b": "y", "x": "a"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("onnxruntime: Add node 'a': sizes", "onnxruntime: Add node 'x': sizes"),
        ("If node 'a/If': Add node 'a/b/Add': sizes", "If node 'x/If': Add node 'y/Add': sizes"),
        ("Add node 'x/1'", "Add node 'a/1'"),
        ("Add node 'ab/c' of a", "Add node 'ab/c' of a"),
        ("Got invalid dimensions for input: a for", "Got invalid dimensions for input: x for"),
    ],
)
def test_names(text: str, expected: str) -> None:
    error = RunError(text)
    error.operator = 3
    found = renamed(error, NAMES)
    assert str(found) == expected
    assert found.operator == 3


def test_without_names_the_error_stays() -> None:
    error = RunError("Add node 'a'")
    assert renamed(error, {}) is error

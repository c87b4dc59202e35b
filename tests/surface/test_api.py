"""Code that was written for the last release runs: docs/stability.md promises it."""

from __future__ import annotations

import pytest
from release.api import current_api, incompatibilities, read_api


def test_the_api_is_compatible_with_the_last_release() -> None:
    faults = incompatibilities(read_api(), current_api())
    assert faults == [], "docs/stability.md says how to change the public API; scripts/api writes that of a release"


def test_what_the_release_has() -> None:
    released = read_api()
    assert released["caffe2_frontend.save_onnx"][:2] == ["model", "path"]
    assert released["caffe2_bridge.Severity"] == ["*ERROR", "*WARNING", "*NOTE"]
    assert "inputs" in released["caffe2_backend.Predictor.run"][0]


@pytest.mark.parametrize(
    ("released", "current", "faults"),
    [
        (["a", "*b=1"], ["a", "*b=1"], []),
        (["a", "*b=1"], ["a", "c=2", "*b=1", "*d=None"], []),
        (["a", "*b=1"], ["a", "b=1"], []),
        (["a", "*b=1"], ["a", "*b=2"], ["'*b=1' is gone or changed"]),
        (["a"], ["b", "a"], ["positional parameter 0 was 'a'", "'b' is new and has no default"]),
        (["a"], ["a", "*b"], ["'b' is new and has no default"]),
        (["a"], ["a=1"], ["positional parameter 0 was 'a'"]),
        (["a"], [], ["positional parameter 0 was 'a'"]),
        (["**kwargs"], ["*args", "**kwargs"], []),
    ],
)
def test_compatible_changes(released: list[str], current: list[str], faults: list[str]) -> None:
    assert incompatibilities({"f": released}, {"f": current}) == sorted(f"f: {fault}" for fault in faults)


def test_names_may_be_added_and_not_removed() -> None:
    assert incompatibilities({"f": []}, {"f": [], "g": []}) == []
    assert incompatibilities({"f": []}, {}) == ["f is gone"]

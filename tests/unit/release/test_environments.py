"""The lowest versions of the dependencies."""

from __future__ import annotations

from release.environments import lowest_requirements


def test_every_lower_bound_is_a_version() -> None:
    found = lowest_requirements()
    assert {"numpy==2.0", "onnx==1.22", "onnxruntime==1.31", "lmdb==3.0"} <= set(found)
    assert not [text for text in found if "==" not in text or ">" in text.partition(";")[0]]
    assert any(text.startswith("plyvel==1.5") and 'python_version < "3.13"' in text for text in found)

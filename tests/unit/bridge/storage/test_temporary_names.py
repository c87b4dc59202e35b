"""A temporary's name says what it is a temporary of, whatever the name of the target is."""

from __future__ import annotations

import pytest

from caffe2_bridge.storage.temporary_names import is_temporary_of, temporary_name


@pytest.mark.parametrize("target", ["a", "model.onnx", "a+b [1]", "x" * 255, "é" * 127])
def test_names_of_temporaries(target: str) -> None:
    name = temporary_name(target)
    assert is_temporary_of(name, target)
    assert not is_temporary_of(name, target[:-1] + "?")
    assert not is_temporary_of(target, target)
    assert len(name.encode()) <= 255
    assert name != temporary_name(target)

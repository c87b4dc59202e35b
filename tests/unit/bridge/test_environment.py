"""An environment variable for the length of a block, and a cached property without a lock."""

from __future__ import annotations

import os

import pytest

from caffe2_bridge.cached import cached_property
from caffe2_bridge.environment import environment_variable


@pytest.mark.parametrize("before", [None, "old"])
def test_a_variable_is_restored(monkeypatch: pytest.MonkeyPatch, before: str | None) -> None:
    name = "CAFFE2_BRIDGE_TEST_VARIABLE"
    monkeypatch.delenv(name, raising=False)
    if before is not None:
        monkeypatch.setenv(name, before)
    with environment_variable(name, "new"):
        assert os.environ[name] == "new"
    assert os.environ.get(name) == before


def test_a_cached_property_is_computed_once() -> None:
    class Counter:
        computed = 0

        @cached_property
        def value(self) -> int:
            self.computed += 1
            return 7

    counter = Counter()
    assert [counter.value, counter.value, counter.computed] == [7, 7, 1]
    del counter.value
    assert [counter.value, counter.computed] == [7, 2]
    assert isinstance(Counter.value, cached_property)

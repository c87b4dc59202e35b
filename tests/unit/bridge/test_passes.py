from __future__ import annotations

from typing import ClassVar

import pytest

from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.passes import PassOrderError, run_passes

State = tuple[str, ...]


class First:
    requires: ClassVar[frozenset[str]] = frozenset()
    ensures: ClassVar[frozenset[str]] = frozenset({"one"})

    def __call__(self, state: State) -> State:
        return (*state, "first")


class Second:
    requires: ClassVar[frozenset[str]] = frozenset({"one"})
    ensures: ClassVar[frozenset[str]] = frozenset({"two"})

    def __call__(self, state: State) -> State:
        return (*state, "second")


class Fails(Second):
    def __init__(self, error: Exception) -> None:
        self.error = error

    def __call__(self, state: State) -> State:
        assert state
        raise self.error


def test_passes_run_in_order_and_leave_the_given_state() -> None:
    start: State = ("start",)
    assert run_passes([First(), Second()], start) == ("start", "first", "second")
    assert start == ("start",)
    assert run_passes([], start) is start


def test_a_pass_before_what_it_requires_is_a_fault_of_the_pipeline() -> None:
    with pytest.raises(PassOrderError, match="Second requires one, which no pass before it ensures"):
        run_passes([Second(), First()], ())
    assert not issubclass(PassOrderError, BridgeError)


def test_an_exception_surfaces_with_the_passes_before_it() -> None:
    error = KeyError("x")
    with pytest.raises(KeyError) as raised:
        run_passes([First(), Fails(error)], ("start",))
    assert raised.value is error
    assert error.__notes__ == ["in pass Fails, after First"]


def test_the_users_errors_are_not_annotated() -> None:
    error = BridgeError("the model is at fault")
    with pytest.raises(BridgeError) as raised:
        run_passes([First(), Fails(error)], ("start",))
    assert not hasattr(raised.value, "__notes__")


def test_facts_are_verified_after_the_pass_that_ensures_them() -> None:
    seen: list[State] = []
    run_passes([First(), Second()], (), verify={"one": seen.append, "three": seen.append})
    assert seen == [("first",)]

    def wrong(_: State) -> None:
        raise ValueError("does not hold")

    with pytest.raises(ValueError, match="does not hold") as raised:
        run_passes([First(), Second()], (), verify={"two": wrong})
    assert raised.value.__notes__ == ["in pass Second, after First"]


def test_dumps_see_every_state() -> None:
    seen: list[tuple[str, State]] = []
    run_passes([First(), Second()], (), dump=lambda name, state: seen.append((name, state)))
    assert seen == [("First", ("first",)), ("Second", ("first", "second"))]

from __future__ import annotations

import logging
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from caffe2_bridge.diagnostics import BridgeError, ConversionError
from caffe2_bridge.passes import FunctionalPass, InPlacePass, PassContractError, PassOrderError, run_passes

State = tuple[str, ...]


class First(FunctionalPass[State]):
    ensures: ClassVar[frozenset[str]] = frozenset({"one"})

    def __call__(self, state: State) -> State:
        return (*state, "first")


class Second(FunctionalPass[State]):
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


def test_an_exception_becomes_an_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CAFFE2_BRIDGE_VERIFY")
    with pytest.raises(ConversionError) as raised:
        run_passes([First(), Fails(KeyError("x"))], ("start",))
    (found,) = raised.value.errors
    assert found.code == "internal-error"
    assert found.reason.startswith("internal error at caffe2_bridge/passes.py:")
    assert found.reason.endswith("KeyError: 'x'")
    monkeypatch.setenv("CAFFE2_BRIDGE_DEBUG", "1")
    with pytest.raises(KeyError):
        run_passes([First(), Fails(KeyError("x"))], ("start",))


def test_a_lack_of_memory_is_not_a_fault() -> None:
    with pytest.raises(BridgeError, match=r"^there is not enough memory: 1 TiB$"):
        run_passes([First(), Fails(MemoryError("1 TiB"))], ("start",))


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


@dataclass
class Box:
    items: list[str] = field(default_factory=list)

    def fingerprint(self) -> Hashable:
        return tuple(self.items)


class Append(InPlacePass[Box]):
    ensures: ClassVar[frozenset[str]] = frozenset({"appended"})

    def __call__(self, state: Box) -> None:
        state.items.append("one")


class Copy(FunctionalPass[Box]):
    def __call__(self, state: Box) -> Box:
        return Box([*state.items, "copied"])


class SecretlyInPlace(FunctionalPass[Box]):
    def __call__(self, state: Box) -> Box:
        state.items.append("two")
        return state


class ReturnsAState(InPlacePass[Box]):
    def __call__(self, state: Box) -> Box:  # type: ignore[override] # what the runner must find
        return state


class ReturnsNothing(FunctionalPass[Box]):
    def __call__(self, state: Box) -> None:  # type: ignore[override] # what the runner must find
        pass


def test_an_in_place_pass_changes_the_state_that_it_is_given() -> None:
    box = Box()
    after = run_passes([Append(), Copy(), Append()], box)
    assert box.items == ["one"]
    assert after.items == ["one", "copied", "one"]


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (SecretlyInPlace(), "functional pass SecretlyInPlace changed the state"),
        (ReturnsAState(), "in-place pass ReturnsAState returned a Box"),
        (ReturnsNothing(), "functional pass ReturnsNothing returned no state"),
    ],
)
def test_passes_are_held_to_their_kind(step: FunctionalPass[Box] | InPlacePass[Box], message: str) -> None:
    with pytest.raises(PassContractError, match=message):
        run_passes([Append(), step], Box())


def test_contracts_are_checked_only_where_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CAFFE2_BRIDGE_VERIFY")
    assert run_passes([SecretlyInPlace()], Box()).items == ["two"]


def test_every_pass_is_logged_with_its_duration(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "caffe2_bridge.passes"):
        run_passes([Append(), Copy()], Box())
    assert [message.split(" took ")[0] for message in caplog.messages] == ["Append", "Copy"]
    assert all(message.endswith(" ms") for message in caplog.messages)

"""What a broken connection interrupted is repeated; other errors are not."""

from __future__ import annotations

import pytest

from caffe2_bridge.storage import retries
from caffe2_bridge.storage.errors import StorageError
from caffe2_bridge.storage.retries import TransientError, repeated


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record pauses instead of making them."""
    made: list[float] = []
    monkeypatch.setattr(retries.time, "sleep", made.append)
    return made


def test_an_action_is_repeated_until_it_succeeds(pauses: list[float]) -> None:
    outcomes = iter([TransientError("cut", "u"), TransientError("cut", "u"), 7])

    def act() -> int:
        outcome = next(outcomes)
        if isinstance(outcome, TransientError):
            raise outcome
        return int(outcome)

    assert repeated(act) == 7
    assert pauses == [0.1, 0.2]


def test_the_last_error_says_how_often_it_was_tried(pauses: list[float]) -> None:
    def act() -> None:
        raise TransientError("the connection was cut", "https://host/file")

    with pytest.raises(StorageError, match=r"the connection was cut \(tried 3 times\)") as caught:
        repeated(act, attempts=3)
    assert caught.value.url == "https://host/file"
    assert len(pauses) == 2


def test_other_errors_are_not_repeated(pauses: list[float]) -> None:
    def act() -> None:
        raise StorageError("forbidden", "https://host/file")

    with pytest.raises(StorageError, match=r"^[^(]*forbidden[^(]*$"):
        repeated(act)
    assert pauses == []

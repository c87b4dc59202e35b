"""What runs of a sweep by default, and where everything is asked for."""

from __future__ import annotations

import pytest
from support.share import VARIABLE, share

CASES = [f"{group} {number}" for group in ("few", *["many"] * 400) for number in range(1 if group == "few" else 3)]
NAMES = [f"{name} of {index}" for index, name in enumerate(CASES)]


@pytest.fixture(autouse=True)
def by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def test_a_share_has_every_group_and_the_order_of_the_cases() -> None:
    chosen = share(NAMES, 8, name=str, group=lambda name: name.split()[0])
    assert len(NAMES) / 12 < len(chosen) < len(NAMES) / 5
    assert {name.split()[0] for name in chosen} == {"few", "many"}
    assert chosen == sorted(chosen, key=NAMES.index)
    assert len(share(NAMES, 10**9, name=str, group=str)) == len(NAMES)
    assert len(share(NAMES, 10**9, name=str)) == 1
    assert share([], 8, name=str) == []


def test_a_case_that_is_added_changes_no_other_choice() -> None:
    assert set(share(NAMES[1:], 8, name=str)) == set(share(NAMES, 8, name=str)) - {NAMES[0]}


def test_everything_runs_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "all")
    assert share(NAMES, 8, name=str) == NAMES
    monkeypatch.setenv(VARIABLE, "some")
    with pytest.raises(ValueError, match=r"CAFFE2_BRIDGE_SHARE is 'some': the only value that it takes is 'all'"):
        share(NAMES, 8, name=str)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pytest

from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.diagnostics.check_options import check_options, require_sequence


@dataclass
class Options:
    flag: bool = False
    count: int | None = None
    share: float = 0.5
    word: Literal["a", "b"] = "a"
    names: Sequence[str] | None = None
    anything: object = None
    derived: bool = field(init=False)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"flag": np.bool_(1), "count": np.int64(3), "share": 1},
        {"share": np.float32(0.25), "word": "b", "names": ("x",)},
        {"anything": "x", "names": (name for name in "xy")},
    ],
)
def test_values_of_the_types_that_are_declared(given: dict[str, Any]) -> None:
    check_options(Options(**given))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"flag": "no"}, "flag must be True or False, not 'no'"),
        ({"flag": None}, "flag must be True or False, not None"),
        ({"flag": 1}, "flag must be True or False, not 1"),
        ({"count": 2.0}, "count must be an integer, not 2.0"),
        ({"count": True}, "count must be an integer, not True"),
        ({"share": "0.5"}, "share must be a number, not '0.5'"),
        ({"word": "c"}, "word must be one of a, b, not 'c'"),
        ({"names": "softmax"}, "names must be a sequence, such as ['softmax'], not the text 'softmax'"),
    ],
)
def test_values_of_other_types(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(OptionError) as error:
        check_options(Options(**given))
    assert str(error.value) == reason


def test_a_text_is_not_a_sequence_of_names() -> None:
    require_sequence("outputs", ["y"])
    with pytest.raises(OptionError, match="outputs must be a sequence"):
        require_sequence("outputs", "y")

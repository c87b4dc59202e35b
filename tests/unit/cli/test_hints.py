"""Hints on the command line: the options, without the arguments of Python."""

from __future__ import annotations

import pytest

from caffe2_cli.output.hints import typed_hint
from caffe2_frontend.interop.input_hint import inputs_hint
from caffe2_frontend.interop.types import TensorInfo

DESCRIBE = "such as --input 'x=float32[N,D]', or inputs={'x': ('float32', ['N', 'D'])}; a name, or '?' (None in Python)"
GIVE = "give the init net: --init FILE, or init_net=...; or make it an input"


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (DESCRIBE, "such as --input 'x=float32[N,D]'; a name, or '?'"),
        (GIVE, "give the init net: --init FILE; or make it an input"),
        ("choose others: --output y, or outputs=['y', 'a]']", "choose others: --output y"),
        ("--no-training, or training=False", "--no-training, or training=False"),
        ("", ""),
    ],
)
def test_what_is_left(hint: str, expected: str) -> None:
    assert typed_hint(hint) == expected


@pytest.mark.parametrize("name", ["x", "it's", 'a"b', "{", "]}", "\\"])
def test_names_of_any_characters(name: str) -> None:
    hint = inputs_hint({name: TensorInfo(), "last": TensorInfo()})
    typed = typed_hint(f"{hint}; or else")
    assert "'float32'" not in typed
    assert typed.endswith("--input 'last=float32[?,?]'; or else"), typed

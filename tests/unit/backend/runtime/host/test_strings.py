"""Parts of strings, cut between bytes as in real Caffe2, and strings that are not UTF-8 text."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace
from caffe2_bridge.diagnostics import RunError

TEXTS = [b"", b"ab", "aé日".encode(), b"\xff\xfe\x00a"]


@pytest.mark.parametrize(
    ("op_type", "length", "parts"),
    [
        ("StringPrefix", 0, [b"", b"", b"", b""]),
        ("StringPrefix", 2, [b"", b"ab", b"a\xc3", b"\xff\xfe"]),
        ("StringPrefix", 4, [b"", b"ab", b"a\xc3\xa9\xe6", b"\xff\xfe\x00a"]),
        ("StringSuffix", 0, [b"", b"", b"", b""]),
        ("StringSuffix", 2, [b"", b"ab", b"\x97\xa5", b"\x00a"]),
        ("StringSuffix", 9, TEXTS),
    ],
)
def test_parts_of_strings(op_type: str, length: int, parts: list[bytes]) -> None:
    workspace = Workspace()
    workspace.feed("x", np.array(TEXTS, object).reshape(2, 2))
    workspace.run_operator_once(operator(op_type, ["x"], ["y"], length=length))
    assert workspace.fetch("y").tolist() == [parts[:2], parts[2:]]  # type: ignore[union-attr] # an array


def test_a_negative_length_is_refused() -> None:
    workspace = Workspace()
    workspace.feed("x", np.array(TEXTS, object))
    with pytest.raises(RunError, match="StringSuffix: length must not be negative, not -1"):
        workspace.run_operator_once(operator("StringSuffix", ["x"], ["y"], length=-1))


def test_strings_that_are_not_text_are_kept_and_onnxruntime_takes_none() -> None:
    workspace = Workspace()
    workspace.feed("x", np.array(TEXTS, object))
    assert workspace.fetch("x").tolist() == TEXTS  # type: ignore[union-attr] # an array
    with pytest.raises(RunError, match=r"StringEquals: onnxruntime takes UTF-8 text only"):
        workspace.run_operator_once(operator("StringEquals", ["x"], ["z"], text="ab"))

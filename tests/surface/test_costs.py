"""Slow paths are held by counts of calls: the same on a busy machine, unlike times.

A count is that of the calls of this project's functions for each operator: the difference of two nets, over that of
their lengths, so that what is paid once does not count. A change that raises one says in its commit what users get.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from conformance.recording import operator
from support.paths import PACKAGES

from caffe2_backend import to_netdef
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import check, to_onnx

FOLDERS = tuple(str(folder) for folder in PACKAGES.values())
SHORT, LONG = 40, 140
INPUTS = {"b0": ("float32", ["N", 8])}


def chain(length: int) -> NetDef:
    """Return a chain of three operators by turns."""
    kinds = ("Relu", "Sigmoid", "Scale")
    ops = [operator(kinds[i % 3], [f"b{i}"], [f"b{i + 1}"]) for i in range(length)]
    return NetDef(name="n", op=ops, external_input=["b0"], external_output=[f"b{length}"])


def calls(work: Callable[[], object]) -> int:
    """Return how many functions of the packages are called: those of dependencies vary with their versions."""
    count = 0

    def note(frame: FrameType, event: str, _arg: Any) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_filename.startswith(FOLDERS)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def each(make: Callable[[NetDef], Callable[[], object]]) -> float:
    """Return the calls for each operator of a chain, once everything is imported and remembered."""
    works = [make(chain(length)) for length in (SHORT, LONG)]
    for work in works:
        work()
    short, long = (calls(work) for work in works)
    return (long - short) / (LONG - SHORT)


def _import(net: NetDef) -> Callable[[], object]:
    model = to_onnx(net, inputs=INPUTS)
    return lambda: to_netdef(model)


@pytest.mark.parametrize(
    ("make", "most"),
    [
        pytest.param(lambda net: lambda: to_onnx(net, inputs=INPUTS), 215, id="export"),
        pytest.param(lambda net: lambda: check(net, inputs=INPUTS), 124, id="check"),
        pytest.param(_import, 610, id="import"),
    ],
)
def test_calls_for_each_operator(
    make: Callable[[NetDef], Callable[[], object]], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CAFFE2_BRIDGE_VERIFY", raising=False)  # passes are held to their kind in tests alone
    found = each(make)
    assert found <= most, f"{found:.1f} calls for each operator"

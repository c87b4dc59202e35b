"""What a case that is outside of its operator's domain may end as."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from conformance import check
from conformance.__main__ import GOLDEN, select
from conformance.check import Checker, Status, Task
from conformance.corpus import Array, find_cases
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

from caffe2_bridge.diagnostics import ConversionError, RunError

REF = select(find_cases(GOLDEN), ["Relu"], gradients=False, sample=1)[0]


class Scripted:
    """A model that returns or raises what it was given."""

    def __init__(self, end: list[Array] | Exception) -> None:
        self._end = end

    def run(self, _: object) -> list[Array]:
        if isinstance(self._end, Exception):
            raise self._end
        return self._end


def status(monkeypatch: pytest.MonkeyPatch, end: list[Array] | Exception, *, outside: bool) -> Status:
    def load(_: onnx.ModelProto) -> Scripted:
        if isinstance(end, ConversionError):
            raise end
        return Scripted(end)

    monkeypatch.setattr(check, "OUTSIDE", {REF.id: "the reason"} if outside else {})
    monkeypatch.setattr(check, "EXECUTORS", {"onnxruntime": load})
    result = Checker().check(Task(REF))
    assert result.status is not Status.OUTSIDE or result.detail == "the reason"
    return result.status


@pytest.mark.parametrize(
    ("end", "otherwise"),
    [
        ([np.zeros(3)], Status.WRONG),
        (RunError("the run ends"), Status.CRASHED),
        (Fail("onnxruntime ends it"), Status.CRASHED),
        (ConversionError(()), Status.REFUSED),
    ],
)
def test_a_result_or_an_announced_error(
    monkeypatch: pytest.MonkeyPatch, end: list[Array] | Exception, otherwise: Status
) -> None:
    assert status(monkeypatch, end, outside=True) is Status.OUTSIDE
    assert status(monkeypatch, end, outside=False) is otherwise


def test_a_fault_is_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    assert status(monkeypatch, KeyError("a fault"), outside=True) is Status.CRASHED


def test_a_case_that_passes_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "OUTSIDE", {REF.id: "the reason"})
    assert Checker().check(Task(REF)).status is Status.PASSED

"""Loops in Python and compiled, and onnxruntime without them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from caffe2_backend.runtime.program.row_updates import kernels, program


@pytest.fixture(params=["python", "numba"])
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "numba":
        pytest.importorskip("numba")
    else:
        monkeypatch.setattr(program, "is_available", lambda: True)
        monkeypatch.setattr(kernels, "compiled", lambda kernel: kernel)


@pytest.fixture
def onnxruntime_only(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    return lambda: monkeypatch.setattr(program, "is_available", lambda: False)

"""Loops over rows of tables: in Python, compiled, or none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from caffe2_backend.runtime.program.row_updates import kernels, parts


def choose_loops(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the loops as ``numba`` compiles them, or in ``python``."""
    if kind == "numba":
        pytest.importorskip("numba")
    else:
        monkeypatch.setattr(parts, "is_available", lambda: True)
        monkeypatch.setattr(kernels, "compiled", lambda kernel: kernel)


def without_loops(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that lets onnxruntime run whole nets from then on."""
    return lambda: monkeypatch.setattr(parts, "is_available", lambda: False)

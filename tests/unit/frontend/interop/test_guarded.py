"""Faults of converters that the user's own code registers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_bridge import ConversionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import register_converter, to_onnx
from caffe2_frontend.ops.index import REGISTERED

X = np.zeros(1, np.float32)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    yield
    REGISTERED.clear()


def fails(op: Any) -> Any:
    return {}[op.type]


@pytest.mark.parametrize(
    ("converter", "reason"),
    [
        (fails, r"fails failed in line \d+: KeyError: 'Faulty' \[plugin\]"),
        (lambda _: None, "returned NoneType, and not the values"),
        (lambda _: (X,), "returned ndarray, and not the values"),
    ],
)
def test_what_a_converter_raises_is_reported_at_its_operator(
    converter: Any, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CAFFE2_BRIDGE_DEBUG", raising=False)
    register_converter("Faulty")(converter)
    with pytest.raises(ConversionError, match=rf"n\[0\] Faulty: error: .*{reason}"):
        to_onnx(
            NetDef(name="n", op=[operator("Faulty", ["x"], ["y"])], external_input=["x"]),
            inputs={"x": ("float32", [3])},
        )


def test_in_debug_mode_exceptions_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAFFE2_BRIDGE_DEBUG", "1")
    register_converter("Faulty")(fails)
    with pytest.raises(KeyError):
        to_onnx(NetDef(op=[operator("Faulty", ["x"], ["y"])], external_input=["x"]), inputs={"x": ("float32", [3])})

"""Programs that several threads run at the same time, and the threads that they run in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend.runtime.program.program import Program
from caffe2_backend.runtime.session_options import SessionOptions
from caffe2_backend.runtime.sessions import Session
from caffe2_bridge.proto.caffe2_pb2 import NetDef


def test_constants_are_those_of_the_inputs() -> None:
    """Inputs that were collected before another run chose the constants keep their own values."""
    program = Program(NetDef(name="net", op=[operator("Add", ["x", "c"], ["y"])]))
    x = np.zeros(2, np.float32)
    constant = np.ones(2, np.float32)
    first = program.collect({"x": x, "c": constant})
    second = program.collect({"x": x, "c": constant * 5})
    np.testing.assert_array_equal(program.run(first, {"c": constant}).values["y"], [1, 1])  # type: ignore[arg-type]
    np.testing.assert_array_equal(program.run(second, {"c": constant}).values["y"], [5, 5])  # type: ignore[arg-type]
    np.testing.assert_array_equal(program.run(first, {"c": constant}).values["y"], [1, 1])  # type: ignore[arg-type]


@pytest.mark.parametrize(("size", "asked", "expected"), [(10, None, 1), (1 << 17, None, None), (10, 2, 2)])
def test_nets_of_tiny_inputs_run_in_one_thread(
    size: int, asked: int | None, expected: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int | None] = []
    real = Session.__init__

    def init(self: Session, *args: Any, options: SessionOptions, **others: Any) -> None:
        threads.append(options.threads)
        real(self, *args, options=options, **others)

    monkeypatch.setattr(Session, "__init__", init)
    net = NetDef(name="net", op=[operator("Sub", ["x", f"size{size}"], ["y"])])
    program = Program(net, options=SessionOptions(threads=asked, entries={"session.test": f"{size} {asked}"}))
    x = np.ones(size, np.float32)
    program.run(program.collect({"x": x, f"size{size}": x}))
    assert threads == [expected]

"""Programs that several threads run at the same time."""

from __future__ import annotations

import numpy as np
from conformance.recording import operator

from caffe2_backend.runtime.program.program import Program
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

"""Which gradient operators may overwrite a gradient, and the versions of blobs that a forward pass writes."""

from __future__ import annotations

import pytest
from conformance.recording import operator

from caffe2_bridge.gradients.forward import GradientError
from caffe2_bridge.gradients.in_place import may_write_over
from caffe2_bridge.gradients.versions import ForwardPass


@pytest.mark.parametrize(
    ("op_type", "inputs", "outputs", "may"),
    [
        ("ReluGradient", ["y", "g"], ["g"], True),
        ("ReluGradient", ["g", "dy"], ["g"], False),
        ("MulGradient", ["g", "a", "b"], ["da", "g"], True),
        ("SinGradient", ["x", "g"], ["g"], False),
        ("SinGradient", ["x", "dy"], ["dx"], True),
        ("Mul", ["g", "g"], ["g"], True),
        ("Mul", ["a", "b", "g"], ["g"], False),
    ],
)
def test_gradients_that_may_be_overwritten(op_type: str, inputs: list[str], outputs: list[str], *, may: bool) -> None:
    assert may_write_over(operator(op_type, inputs, outputs), "g") == may


def test_versions_of_a_forward_pass() -> None:
    forward = ForwardPass.of(
        [operator("FC", ["x", "w", "b"], ["y"]), operator("Relu", ["y"], ["y"]), operator("Sum", ["y", "y"], ["s"])],
        "net",
    )
    assert [step.reads for step in forward.steps] == [{"x": 0, "w": 0, "b": 0}, {"y": 0}, {"y": 1}]
    assert [step.writes for step in forward.steps] == [{"y": 0}, {"y": 1}, {"s": 0}]
    assert (forward.uses["y", 1].first, forward.uses["y", 1].count) == (2, 2)
    assert forward.overwriter("y", 0).startswith("net[1] Relu")
    assert forward.overwriter("x", 0) == "an operator"


def test_a_stopped_gradient_that_nothing_reads_is_refused() -> None:
    with pytest.raises(GradientError, match="no operator reads its output 'z'"):
        ForwardPass.of([operator("StopGradient", ["x"], ["z"])], "net")

from __future__ import annotations

from caffe2_bridge.gradients import get_gradient_for_op
from caffe2_bridge.gradients.operator_maker import make_operator


def test_a_python_operator() -> None:
    op = make_operator("Python", ["x"], ["y", "z"], token="f:0")  # noqa: S106 - the name of a function
    gradient = get_gradient_for_op(op, ["dy", "dz"])
    (made,) = gradient.operators
    assert (made.type, list(made.input), list(made.output)) == (
        "PythonGradient",
        ["x", "y", "z", "dy", "dz"],
        ["x_grad"],
    )
    assert [arg.name for arg in made.arg] == ["token"]
    assert gradient.g_input == ["x_grad"]


def test_selected_gradients() -> None:
    op = make_operator("PythonDLPack", ["a", "b"], ["y", "z"], grad_output_indices=[1], grad_input_indices=[1])
    gradient = get_gradient_for_op(op, [None, "dz"])
    (made,) = gradient.operators
    assert (made.type, list(made.input), list(made.output)) == (
        "PythonDLPackGradient",
        ["a", "b", "y", "z", "dz"],
        ["b_grad"],
    )
    assert gradient.g_input == [None, "b_grad"]

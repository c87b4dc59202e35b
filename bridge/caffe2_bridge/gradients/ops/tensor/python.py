"""Gradient makers of Python operators."""

from caffe2_bridge.gradients.family import Family
from caffe2_bridge.gradients.forward import Forward

family = Family("python")


@family.differentiates("Python", "PythonDLPack")
def differentiate_python(op: Forward) -> None:
    """PythonGradient(X..., Y..., dY...) -> dX...; arguments may select the gradients."""
    of_outputs = op.args.integers("grad_output_indices", default=()) or range(len(op.outputs))
    of_inputs = op.args.integers("grad_input_indices", default=()) or range(len(op.inputs))
    inputs = [op.x(i) for i in range(len(op.inputs))]
    outputs = [op.y(i) for i in range(len(op.outputs))]
    gradients = [op.dy(i) for i in of_outputs]
    op.emit(f"{op.type}Gradient", [*inputs, *outputs, *gradients], [op.dx(i) for i in of_inputs])

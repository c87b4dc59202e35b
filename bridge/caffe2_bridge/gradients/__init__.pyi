from caffe2_bridge.gradients.control.bindings import dedupe_g_output
from caffe2_bridge.gradients.forward import BlobGradient, GradientError, OpGradient, SparseGradient
from caffe2_bridge.gradients.net import GradientNet, GradientOperators, add_gradient_operators, get_backward_pass
from caffe2_bridge.gradients.recompute import recompute_steps
from caffe2_bridge.gradients.registry import gen_do_gradient, gen_if_gradient, gen_while_gradient, get_gradient_for_op
from caffe2_bridge.gradients.rename import disambiguate_grad_if_op_output

__all__ = [
    "BlobGradient",
    "GradientError",
    "GradientNet",
    "GradientOperators",
    "OpGradient",
    "SparseGradient",
    "add_gradient_operators",
    "dedupe_g_output",
    "disambiguate_grad_if_op_output",
    "gen_do_gradient",
    "gen_if_gradient",
    "gen_while_gradient",
    "get_backward_pass",
    "get_gradient_for_op",
    "recompute_steps",
]

"""Operators with bodies: If, AsyncIf, While, Do, ONNXWhile, RecurrentNetwork and RecurrentNetworkGradient.

This package alone reads and writes their arguments. :func:`control_of` gives the view of an operator; ``*_arguments``
make the arguments of a new one. A new operator is one file here with its class, and a line in ``table.py``.
"""

from caffe2_bridge.control.backward_spec import BackwardSpec, ParameterGradient, StateGradient
from caffe2_bridge.control.bodies import all_operators, inner_operators, nets_run_by
from caffe2_bridge.control.branch import If, if_arguments
from caffe2_bridge.control.counts import count_operators
from caffe2_bridge.control.description import (
    Body,
    BodyScope,
    ControlOperator,
    Formal,
    Place,
    Result,
    Role,
    Runs,
)
from caffe2_bridge.control.do import Do, do_arguments
from caffe2_bridge.control.names import all_names, names_in_arguments
from caffe2_bridge.control.onnx_while import OnnxWhile, onnx_while_arguments
from caffe2_bridge.control.recurrent import (
    RecurrentNetwork,
    StepOperator,
    backward_arguments,
    recurrent_arguments,
)
from caffe2_bridge.control.recurrent_gradient import RecurrentNetworkGradient
from caffe2_bridge.control.recurrent_spec import Alias, Link, RecurrentSpec, Scratch, State
from caffe2_bridge.control.rename import edit_bodies, rename_control
from caffe2_bridge.control.table import CONTROL_TYPES, body_arguments, control_class, control_of, is_control
from caffe2_bridge.control.text import parsed_bodies
from caffe2_bridge.control.while_loop import While, while_arguments

__all__ = [
    "CONTROL_TYPES",
    "Alias",
    "BackwardSpec",
    "Body",
    "BodyScope",
    "ControlOperator",
    "Do",
    "Formal",
    "If",
    "Link",
    "OnnxWhile",
    "ParameterGradient",
    "Place",
    "RecurrentNetwork",
    "RecurrentNetworkGradient",
    "RecurrentSpec",
    "Result",
    "Role",
    "Runs",
    "Scratch",
    "State",
    "StateGradient",
    "StepOperator",
    "While",
    "all_names",
    "all_operators",
    "backward_arguments",
    "body_arguments",
    "control_class",
    "control_of",
    "count_operators",
    "do_arguments",
    "edit_bodies",
    "if_arguments",
    "inner_operators",
    "is_control",
    "names_in_arguments",
    "nets_run_by",
    "onnx_while_arguments",
    "parsed_bodies",
    "recurrent_arguments",
    "rename_control",
    "while_arguments",
]

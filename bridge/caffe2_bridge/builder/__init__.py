"""Build Caffe2 nets without Caffe2: nets, recurrent nets and their cells, control flow.

Errors are ``BuildError``, a ``caffe2_bridge.BridgeError``.
"""

from caffe2_bridge.builder.cells import (
    AttentionCell,
    AttentionType,
    BasicRNNCell,
    Cell,
    DropoutCell,
    GRUCell,
    LayerNormLSTMCell,
    LayerNormMILSTMCell,
    LSTMCell,
    MILSTMCell,
    MultiRNNCell,
    Step,
    StepInput,
    UnrolledCell,
)
from caffe2_bridge.builder.control import add_if_op, add_while_op
from caffe2_bridge.builder.initializers import ONES, XAVIER, ZEROS, Initializer, constant, gaussian, given, uniform
from caffe2_bridge.builder.layers import concat, dropout, fc, layer_norm
from caffe2_bridge.builder.net import Net
from caffe2_bridge.builder.recurrent import recurrent_net
from caffe2_bridge.builder.scope import Blob
from caffe2_bridge.diagnostics import BuildError
from caffe2_bridge.netdef.construct import make_argument, make_operator

__all__ = [
    "ONES",
    "XAVIER",
    "ZEROS",
    "AttentionCell",
    "AttentionType",
    "BasicRNNCell",
    "Blob",
    "BuildError",
    "Cell",
    "DropoutCell",
    "GRUCell",
    "Initializer",
    "LSTMCell",
    "LayerNormLSTMCell",
    "LayerNormMILSTMCell",
    "MILSTMCell",
    "MultiRNNCell",
    "Net",
    "Step",
    "StepInput",
    "UnrolledCell",
    "add_if_op",
    "add_while_op",
    "concat",
    "constant",
    "dropout",
    "fc",
    "gaussian",
    "given",
    "layer_norm",
    "make_argument",
    "make_operator",
    "recurrent_net",
    "uniform",
]

"""Recurrent cells."""

from caffe2_bridge.builder.cells.attention import AttentionCell
from caffe2_bridge.builder.cells.attention_scores import AttentionType
from caffe2_bridge.builder.cells.base import Cell, Step, StepInput
from caffe2_bridge.builder.cells.lstm import LayerNormLSTMCell, LayerNormMILSTMCell, LSTMCell, MILSTMCell
from caffe2_bridge.builder.cells.multi import DropoutCell, MultiRNNCell
from caffe2_bridge.builder.cells.simple import BasicRNNCell, GRUCell
from caffe2_bridge.builder.cells.unrolled import UnrolledCell

__all__ = [
    "AttentionCell",
    "AttentionType",
    "BasicRNNCell",
    "Cell",
    "DropoutCell",
    "GRUCell",
    "LSTMCell",
    "LayerNormLSTMCell",
    "LayerNormMILSTMCell",
    "MILSTMCell",
    "MultiRNNCell",
    "Step",
    "StepInput",
    "UnrolledCell",
]

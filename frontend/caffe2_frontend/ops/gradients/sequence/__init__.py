"""Converters of the gradients of recurrent units and of reductions and packing of sequences."""

from caffe2_frontend.lowering.family import Family
from caffe2_frontend.ops.gradients.sequence import rnn_unit, segment_reduction

FAMILIES: tuple[Family, ...] = (rnn_unit.family, segment_reduction.family)

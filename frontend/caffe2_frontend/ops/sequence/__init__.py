"""Converters of sequence and segment operators."""

from caffe2_frontend.lowering.family import Family
from caffe2_frontend.ops.sequence import (
    ctc,
    inference_lstm,
    lengths,
    rnn_unit,
    segment_reduction,
    sequence,
    sequence_mask,
    viterbi,
)

FAMILIES: tuple[Family, ...] = (
    ctc.family,
    inference_lstm.family,
    lengths.family,
    rnn_unit.family,
    segment_reduction.family,
    sequence.family,
    sequence_mask.family,
    viterbi.family,
)

"""Converters of sequence and segment operators."""

from typing import Final

# The modules that define a family of converters; scripts/operators writes their index.
FAMILIES: Final = (
    "ctc",
    "inference_lstm",
    "lengths",
    "rnn_unit",
    "segment_reduction",
    "sequence",
    "sequence_mask",
    "viterbi",
)

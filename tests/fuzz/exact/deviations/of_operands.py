"""Deviations on operands that contradict each other, which Caffe2 does not compare."""

from __future__ import annotations

from typing import Final

from fuzz.exact.deviations.causes import (
    has_negative_numbers,
    has_other_characters,
)
from fuzz.exact.deviations.deviation import Deviation
from fuzz.exact.deviations.sizes import (
    LENGTHS,
    MERGES,
    MULTIPLE_MERGES,
    SINGLE_MERGES,
    has_another_count,
    has_another_window,
    has_longer_segments,
    has_other_channels,
    has_other_classes,
    has_other_cores,
    has_other_partitions,
    has_other_planes,
    has_other_probabilities,
    has_other_states,
    has_other_sum_of_lengths,
    has_other_trains,
    has_segments_beyond_rows,
    has_too_few_weights,
    merges_other_counts,
    merges_other_ids,
    merges_other_lengths,
    merges_other_values,
    picks_from_other_planes,
    scatters_other_planes,
)
from fuzz.exact.deviations.unchecked import (
    INDEXED,
    OVERWRITING,
    REDUCTIONS,
    SEARCHES,
    exceeds_a_row,
    has_another_depthwise_filter,
    has_another_filter,
    has_another_state,
    has_equal_logarithms,
    has_fewer_ids_than_columns,
    has_foreign_index,
    has_index_beyond_its_segment,
    has_negative_class,
    has_too_few_bytes,
    has_unsorted_boundaries,
    is_of_another_shape,
    is_resized_to_another_size,
    is_shorter_than_padding,
    keeps_a_reduced_axis,
    leaves_a_sequence,
    leaves_int32_rounded_up,
    orders_equal_scores,
    overwrites_an_operand,
    spans_more_than_32_bits,
)

_SIZES: Final = (
    "operands of sizes that contradict each other, which Caffe2 does not compare: the model reports an error"
)
_SEGMENTS: Final = (
    "a segment that is longer than the rows it has, after which Caffe2 reads those of the next, or other memory"
)
_INDEX: Final = (
    "an index that lies outside of what it indexes, which released builds of Caffe2 do not check: they read and write "
    "other memory"
)
OPERANDS: Final = (
    Deviation(
        "a range of integers that are 2**31 or more apart, whose number Caffe2 counts in 32 bits",
        frozenset({"Range"}),
        spans_more_than_32_bits,
        may_fail=True,
    ),
    Deviation(
        _INDEX,
        frozenset({"LengthsTopKGradient"}),
        has_index_beyond_its_segment,
        may_fail=True,
    ),
    Deviation(
        "operands of a gradient that contradict each other, and that Caffe2 does not compare",
        frozenset({"ReduceFrontWeightedSumGradient"}),
        is_of_another_shape,
        may_fail=True,
    ),
    Deviation(
        "a string with characters beyond ASCII, of which Caffe2 counts bytes",
        frozenset({"StringPrefix", "StringSuffix"}),
        has_other_characters,
        may_fail=True,
    ),
    Deviation("boundaries that are not sorted, or of which one is a NaN", SEARCHES, has_unsorted_boundaries),
    Deviation(
        _INDEX,
        frozenset({"OneHot"}),
        has_negative_class,
        may_fail=True,
    ),
    Deviation(
        _INDEX,
        frozenset(INDEXED),
        has_foreign_index,
        may_fail=True,
    ),
    Deviation(
        _SIZES,
        frozenset({"HSoftmax", "HSoftmaxGradient", "HSoftmaxSearch"}),
        has_other_classes,
        may_fail=True,
    ),
    Deviation(
        _SIZES,
        frozenset(MERGES),
        merges_other_counts,
        may_fail=True,
    ),
    Deviation(
        _SIZES,
        frozenset(MULTIPLE_MERGES),
        merges_other_lengths,
        may_fail=True,
    ),
    Deviation(
        _SIZES,
        frozenset(SINGLE_MERGES),
        merges_other_values,
        may_fail=True,
    ),
    Deviation(
        _SIZES,
        frozenset({"MergeIdLists"}),
        merges_other_ids,
        may_fail=True,
    ),
    Deviation(
        _SIZES,
        frozenset({"BooleanMaskGradient"}),
        has_another_count,
        may_fail=True,
    ),
    Deviation(
        _SIZES,
        frozenset({"SpatialSoftmaxWithLossGradient"}),
        has_other_probabilities,
        may_fail=True,
    ),
    Deviation(
        _SIZES,
        frozenset({"YellowFin"}),
        has_another_window,
        may_fail=True,
    ),
    Deviation(
        _SIZES,
        frozenset({"Int8Conv", "Int8ConvRelu"}),
        has_other_planes,
        may_fail=True,
    ),
    Deviation(
        _SIZES,
        frozenset({"GatherByKey"}),
        has_other_partitions,
        may_fail=True,
    ),
    Deviation(
        _SIZES,
        frozenset({"InferenceLSTM"}),
        has_other_states,
        may_fail=True,
    ),
    Deviation(
        _SEGMENTS,
        frozenset({"UnpackSegments"}),
        has_longer_segments,
    ),
    Deviation(
        _SEGMENTS,
        frozenset({"LengthsMaxWithMainInputAndForwardOutputGradient"}),
        has_segments_beyond_rows,
        may_fail=True,
    ),
    Deviation(
        _SIZES,
        frozenset({"Scatter"}),
        scatters_other_planes,
        may_fail=True,
    ),
    Deviation(
        _SIZES,
        frozenset({"TopKGradient"}),
        picks_from_other_planes,
        may_fail=True,
    ),
    Deviation(
        _SIZES,
        frozenset(LENGTHS),
        has_other_sum_of_lengths,
        may_fail=True,
    ),
    Deviation(
        "more scales or biases than channels, of which Caffe2 reads the first, or fewer, after which it reads other "
        "memory",
        frozenset({"AffineChannel", "AffineChannelGradient"}),
        has_other_channels,
        may_fail=True,
    ),
    Deviation(
        _SIZES,
        frozenset({"TTSparseLengthsSumGradient"}),
        has_other_trains,
        may_fail=True,
    ),
    Deviation(
        "cores of other sizes than the arguments give them, an index beyond these, or lengths that do not add up to "
        "the number of indices: Caffe2 reads other memory, or leaves sums unwritten",
        frozenset({"TTSparseLengthsSum"}),
        has_other_cores,
        may_fail=True,
    ),
    Deviation(
        "fewer weights than the longest segment has rows: Caffe2 reads other memory",
        frozenset({"SparseLengthsPositionalWeightedSum"}),
        has_too_few_weights,
        may_fail=True,
    ),
    Deviation(
        "a segment shorter than its paddings, before which Caffe2 reads other memory",
        frozenset({"GatherPadding", "RemovePadding"}),
        is_shorter_than_padding,
        may_fail=True,
    ),
    Deviation(
        "a state of FTRL that does not have two numbers for each weight, or a gradient of another size, which released "
        "builds of Caffe2 do not check",
        frozenset({"SparseFtrl"}),
        has_another_state,
        may_fail=True,
    ),
    Deviation(
        "fewer bytes than weights, which Caffe2 does not compare",
        frozenset({"ByteWeightDequant"}),
        has_too_few_bytes,
        may_fail=True,
    ),
    Deviation(
        "a product that is resized like an operand of another number of elements: Caffe2 keeps the first ones, or "
        "reads new memory",
        frozenset({"MatMul"}),
        is_resized_to_another_size,
        may_fail=True,
    ),
    Deviation(
        "a length beyond the row, of which Caffe2 adds up the next ones, or other memory",
        frozenset(f"Reduce{end}{kind}" for end in ("Front", "Back") for kind in ("Sum", "Mean", "Max")),
        exceeds_a_row,
    ),
    Deviation(
        "a row of a recurrent step before or behind its sequence, where Caffe2 reads and writes other memory",
        frozenset({"RecurrentNetwork"}),
        leaves_a_sequence,
        may_fail=True,
    ),
    Deviation(
        "equal scores of words, of which an unstable sort decides which comes first",
        frozenset({"HSoftmaxSearch"}),
        orders_equal_scores,
    ),
    Deviation(
        "logarithmic bins between nearly equal bounds, whose edges follow from the rounding of logarithms",
        frozenset({"SelfBinningHistogram"}),
        has_equal_logarithms,
    ),
    Deviation(
        "a filter that is not 3 x 3, which engine DEPTHWISE_3x3 does not check: it reads nine weights of each channel",
        frozenset({"Conv"}),
        has_another_depthwise_filter,
        may_fail=True,
    ),
    Deviation(
        "an axis that is reduced twice, and a later one: Caffe2's result keeps the dims behind, mostly unwritten",
        frozenset(REDUCTIONS),
        keeps_a_reduced_axis,
    ),
    Deviation("negative lengths", frozenset({"LengthsSplit"}), has_negative_numbers, may_fail=True),
    Deviation(
        "a length that leaves int32 once it is rounded up to the next multiple of the parts",
        frozenset({"LengthsSplit"}),
        leaves_int32_rounded_up,
    ),
    Deviation(
        "a filter of other sizes than the argument kernel, of which Caffe2 reads other elements, or other memory",
        frozenset({"Int8Conv", "Int8ConvRelu", "Int8ConvTranspose"}),
        has_another_filter,
        may_fail=True,
    ),
    Deviation(
        "fewer ids than columns of features, after which Caffe2 reads other memory",
        frozenset({"MergeDenseFeatureTensors"}),
        has_fewer_ids_than_columns,
        may_fail=True,
    ),
    Deviation(
        "an operand over which Caffe2 writes a result before it has read all of it",
        OVERWRITING,
        overwrites_an_operand,
    ),
)

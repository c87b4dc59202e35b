"""Operands that kernels of Caffe2 do not compare with each other, so that they read or write other memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import prod
from typing import Final

import numpy as np
from conformance.compare import mismatches
from conformance.corpus import Array

from caffe2_bridge.control import RecurrentNetwork, all_operators
from caffe2_bridge.netdef.views import ArgumentError, NetView, OpView
from caffe2_bridge.netdef.window import window_argument
from fuzz.exact.deviations.causes import Arrays
from fuzz.exact.drawing.drawn import Drawn

# Operators that take the reciprocal of the root of several variances at once.
NORMALIZATIONS: Final = frozenset({"GroupNorm", "InstanceNorm", "InstanceNormGradient", "SpatialBN"})
# By operator type: the operand with the indices, the one that they are for, and along which axis. Of most of these only
# a build for debugging checks the indices (DCHECK, or CAFFE_ENFORCE unless NDEBUG); BatchBucketize and RowWiseCounter
# check them against an upper bound that is one too high; Accuracy, CopyRowsToTensor, FlexibleTopKGradient and
# SparseNormalize do not check them; BatchGatherGradient, Gather and BatchGather with match_outer, and Scatter, check
# those of the first row.
INDEXED: Final = {
    "Accuracy": (1, 0, 1),
    "BatchBucketize": (1, 0, 1),
    "BatchGather": (1, 0, 1),
    "BatchGatherGradient": (1, 0, 1),
    "BatchPermutation": (1, 0, 0),
    "BatchPermutationGradient": (0, 1, 0),
    "CopyRowsToTensor": (1, 0, 0),
    "EnsureClipped": (1, 0, 0),
    "FlexibleTopKGradient": (3, 0, -1),
    "Gather": (1, 0, 0),
    "Float16SparseNormalize": (1, 0, 0),
    "LabelCrossEntropyGradient": (1, 0, 1),
    "MultiClassAccuracy": (1, 0, 1),
    "QuantDecode": (1, 0, 0),
    "QuantDecodeGradient": (1, 0, 0),
    "RowWiseCounter": (2, 1, 0),
    "RowWiseSparseAdam": (3, 0, 0),
    "Scatter": (1, 0, 1),
    "ScatterAssign": (1, 0, 0),
    "ScatterWeightedSum": (2, 0, 0),
    "SoftmaxWithLossGradient": (1, 0, 1),
    "SparseAdadelta": (3, 0, 0),
    "SparseAdam": (3, 0, 0),
    "SparseFtrl": (2, 0, 0),
    "SparseLengthsIndicesInGradientWeightedSumWithMainInputGradient": (4, 3, 0),
    "SparseLengthsWeightedSumWithMainInputGradient": (4, 3, 0),
    "SparseLpRegularizer": (1, 0, 0),
    "SparseNormalize": (1, 0, 0),
    "SparseStorm": (4, 0, 0),
    "SparseWngrad": (2, 0, 0),
    "SwapBestPath": (1, 0, 1),
    "TopKGradient": (1, 2, -1),
    **{
        f"{prefix}UnsortedSegment{reduction}Gradient": operands
        for prefix in ("", "Sparse")
        for reduction, operands in {"Sum": (1, 0, 0), "Mean": (1, 0, 0), "WeightedSum": (2, 1, 0)}.items()
    },
}

SORTS: Final = frozenset({"argsort", "kthvalue", "median", "mode", "sort", "topk"})
REDUCTIONS: Final = ("ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMin")

# Operators with the argument ``axis`` instead, and those whose negative indices count from the end.
_WITH_AXIS: Final = frozenset({"BatchGatherGradient", "Gather", "Scatter", "SoftmaxWithLossGradient", "TopKGradient"})
_FROM_THE_END: Final = frozenset({"BatchGather", "BatchGatherGradient", "Gather"})
# Operators whose indices count all elements from the axis on.
_FLATTENED: Final = frozenset({"SoftmaxWithLossGradient"})
# How many operands from there on have indices, of so many operands.
_COUNTS: Final[dict[str, Callable[[int], int]]] = {
    "QuantDecode": lambda operands: operands - 1,
    "QuantDecodeGradient": lambda operands: (operands - 1) // 2,
}


CONVOLUTIONS: Final = (
    *(f"Conv{rank}{which}" for rank in ("", "1D", "2D", "3D") for which in ("", "Gradient")),
    "ConvTranspose", "ConvTransposeGradient", "ConvRelu", "Int8Conv", "Int8ConvRelu", "Int8ConvTranspose",
)  # fmt: skip


SEARCHES: Final = frozenset({"BatchBucketize", "BatchBucketOneHot", "BisectPercentile", "PiecewiseLinearTransform"})


def operators(drawn: Drawn, *types: str) -> Iterator[tuple[OpView, list[Array | None]]]:
    """The operators of some types, with those of their operands that are fed."""
    for op in all_operators(NetView(drawn.net)):
        if op.type in types:
            yield op, [drawn.inputs.get(name, drawn.inputs.get(f"{name}/raw")) for name in op.inputs]


def has_infinite_variance(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether the epsilon of a normalization, or a variance that is fed, is infinite."""
    return any(
        np.isinf(op.args.number("epsilon", default=1e-5))
        or (op.type == "SpatialBN" and any(each is not None and bool(np.isinf(each).any()) for each in arrays[4:5]))
        for op, arrays in operators(drawn, *NORMALIZATIONS)
    )


def has_negative_class(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether an index of OneHot is negative, also one that is cast to an integer before."""
    net = NetView(drawn.net)
    sources = {op.outputs[0]: op.inputs[0] for op in all_operators(net) if op.type == "Cast"}
    names = {sources.get(op.inputs[0], op.inputs[0]) for op in all_operators(net) if op.type == "OneHot"}
    return any(bool((drawn.inputs[name] <= -1).any()) for name in names if name in drawn.inputs)


def has_foreign_index(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether an index is not below the size that it is for, or before its start."""
    for op, operands in operators(drawn, *INDEXED):
        index, table, axis = INDEXED[op.type]
        axis = op.args.integer("axis", default=axis) if op.type in _WITH_AXIS else axis
        indexed = operands[table]
        count = _COUNTS[op.type](len(operands)) if op.type in _COUNTS else 1
        every = operands[index : index + count]
        for indices in every:
            if indices is None or indexed is None or not indices.size or max(indexed.ndim, 1) <= axis:
                continue
            if indices.dtype.kind not in "iu":  # probabilities of classes
                continue
            size = indexed.shape[axis] if indexed.ndim else 1  # a scalar counts as one row
            if op.type in _FLATTENED:
                size = prod(indexed.shape[axis:])
            if indices.min() < (-size if op.type in _FROM_THE_END else 0) or indices.max() >= size:
                return True
    return False


def _boundaries(op: OpView, operands: Sequence[Array | None]) -> Iterator[Array]:
    """The boundaries of each column or function of an operator that searches among them."""
    bounds: Array | None
    counts: Array | None
    if op.type == "BisectPercentile":
        bounds = np.array(op.args.numbers("percentile_raw", default=()))
        counts = np.array(op.args.integers("lengths", default=()))
    elif op.type == "PiecewiseLinearTransform":
        given = [np.array(op.args.numbers(name, default=())) for name in ("bounds", "slopes")]
        bounds, slopes = given if given[0].size else (*operands[1:3], None, None)[:2]
        if bounds is None or slopes is None or not bounds.size > slopes.size:
            return
        functions = bounds.size - slopes.size
        counts = np.full(functions, bounds.size // functions)
    else:
        bounds, counts = operands[2], operands[3 if op.type == "BatchBucketize" else 1]
    if bounds is not None and counts is not None:
        yield from np.split(bounds.ravel(), np.cumsum(counts.ravel().astype(np.int64))[:-1])


def has_unsorted_boundaries(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether boundaries are searched that are not sorted, or of which one is a NaN."""
    return any(
        bool(np.isnan(each).any()) or bool((np.diff(each) < 0).any())
        for op, operands in operators(drawn, *SEARCHES)
        for each in _boundaries(op, operands)
    )


def has_squares_that_absorb_the_bias(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether a share of LRN's sum is so large that float32 leaves nothing of the bias beside it.

    Or, of the gradient's sum of products, so large that what is left once it has been subtracted again is seen.
    """
    for op, (x, y, dy, *_rest) in operators(drawn, "LRNGradient"):
        if x is None or y is None or dy is None or not x.size or x.shape != y.shape or x.shape != dy.shape:
            continue
        factor = 2 * op.args.number("alpha", default=0.0) * op.args.number("beta", default=0.0)
        products = np.abs(y.astype(np.float64) * dy).max() * np.abs(x).max()
        if abs(factor) / max(op.args.integer("size", default=1), 1) * products > 2**24 * 1e-6:
            return True
    for op, (x, *_rest) in operators(drawn, "LRN", "LRNGradient"):
        if x is None or not x.size:
            continue
        alpha, bias = op.args.number("alpha", default=0.0), op.args.number("bias", default=1.0)
        share = alpha / max(op.args.integer("size", default=1), 1) * np.square(x.astype(np.float64)).max()
        if abs(share) > 2**22 * abs(bias):
            return True
    return False


def leaves_int32_rounded_up(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether LengthsSplit adds so many parts to a length that the sum leaves int32."""
    for op, (lengths, *rest) in operators(drawn, "LengthsSplit"):
        parts = rest[0].max(initial=0) if rest and rest[0] is not None else op.args.integer("n_split", default=0)
        if lengths is not None and lengths.max(initial=0) > np.iinfo(np.int32).max - int(parts):
            return True
    return False


def keeps_a_reduced_axis(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether an axis is reduced twice, and a later one too."""
    for op in all_operators(NetView(drawn.net)):
        x = drawn.inputs.get(op.inputs[0]) if op.inputs else None
        if op.type in REDUCTIONS and x is not None and x.ndim:
            axes = sorted(axis % x.ndim for axis in op.args.integers("axes", default=()))
            if any(first == second < axes[-1] for first, second in pairwise(axes)):
                return True
    return False


def has_index_beyond_its_segment(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether an index of LengthsTopKGradient, which writes there, is not below the length of its segment."""
    for _op, (lengths, indices, *_rest) in operators(drawn, "LengthsTopKGradient"):
        if lengths is None or indices is None or not lengths.size or indices.size % lengths.size:
            continue
        if (indices.reshape(lengths.size, -1) >= lengths.reshape(-1, 1)).any():
            return True
    return False


def is_shorter_than_padding(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether a segment of GatherPadding or RemovePadding has fewer rows than its paddings."""
    for op, operands in operators(drawn, "GatherPadding", "RemovePadding"):
        before = op.args.integer("padding_width", default=1)
        after = op.args.integer("end_padding_width", default=-1)
        lengths = operands[1] if len(operands) > 1 else None
        if lengths is not None and lengths.size and lengths.min() < before + (before if after < 0 else after):
            return True
    return False


def exceeds_a_row(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether a length is beyond the size of the axis that ReduceFront or ReduceBack reduces."""
    for op in all_operators(NetView(drawn.net)):
        x, lengths = (*(drawn.inputs.get(name) for name in op.inputs[:2]), None, None)[:2]
        if op.type.startswith(("ReduceFront", "ReduceBack")) and x is not None and x.ndim and lengths is not None:
            size = x.shape[0 if op.type.startswith("ReduceFront") else -1]
            if lengths.dtype.kind == "i" and bool((lengths > size).any()):
                return True
    return False


def leaves_a_sequence(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether a link of a RecurrentNetwork names rows before or behind those of its first operand or of a state."""
    for op, operands in operators(drawn, "RecurrentNetwork"):
        try:
            spec = RecurrentNetwork(op).spec
        except ArgumentError:
            continue  # its arguments are at fault
        more = dict.fromkeys(op.inputs[:1], 0)  # rows beside those of the steps
        for state in spec.states:
            initial = operands[state.initial] if 0 <= state.initial < len(operands) else None
            if initial is not None:
                more[state.blob] = len(initial) if initial.ndim == 3 else 1
        for link in spec.links:
            last = link.offset + link.window - 1
            if link.offset < 0 or (link.external in more and last > more[link.external]):
                return True
    return False


def orders_equal_scores(drawn: Drawn, expected: Arrays, actual: Arrays) -> bool:
    """Whether HSoftmaxSearch yields the same scores, and other names only where several nodes have a score.

    Of those that share the last score of a row, some may not be among the best. Scores that are no output are told by
    what another operator makes of them.
    """
    ops = list(all_operators(NetView(drawn.net)))
    for op in ops:
        if op.type != "HSoftmaxSearch":
            continue
        known = [other.outputs[0] for other in ops if op.outputs[1] in other.inputs and other.outputs]
        told = [op.outputs[0], *[name for name in (op.outputs[1], *known) if name in expected][:1]]
        if len(told) < 2 or told[0] not in expected:
            continue
        (names, scores), (others, same) = ([arrays[name] for name in told] for arrays in (expected, actual))
        if names.shape != others.shape or names.shape != scores.shape or mismatches({"": scores}, {"": same}):
            continue
        tied = np.isclose(scores[:, :, None], scores[:, None, :], 1e-6, 0).sum(axis=2) > 1
        tied |= np.isclose(scores, scores[:, -1:], 1e-6, 0)
        if bool((tied | (names == others)).all()):
            return True
    return False


def orders_equal_elements(drawn: Drawn, expected: Arrays, actual: Arrays) -> bool:
    """Whether ATen operators that sort differ only in the indices of their results, and have equal elements."""
    for op, (x, *_rest) in operators(drawn, "ATen"):
        name = op.args.text("operator", default="")
        if name not in SORTS or x is None or np.unique(x).size == x.size:
            continue
        indices = op.outputs[-1:]
        if not mismatches(*({key: a for key, a in each.items() if key not in indices} for each in (expected, actual))):
            return True
    return False


def has_equal_logarithms(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether logarithmic bins span so few steps of their type that the rounding of logarithms decides their edges."""
    for op, operands in operators(drawn, "SelfBinningHistogram"):
        numbers = [operand.reshape(-1) for operand in operands if operand is not None and operand.size]
        if not numbers or op.args.text("bin_spacing", default="linear") != "logarithmic":
            continue
        elements = np.concatenate(numbers)
        elements = np.abs(elements) if op.args.flag("abs", default=False) else elements
        lowest = op.args.number("logspace_start", default=1e-24)
        low, high = (np.log(max(float(bound), lowest)) for bound in (elements.min(), elements.max()))
        if high - low < 256 * np.finfo(elements.dtype).eps * max(abs(low), abs(high), 1):
            return True
    return False


def has_another_depthwise_filter(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether the filter of a Conv of engine DEPTHWISE_3x3 is not 3 x 3."""
    for op, operands in operators(drawn, "Conv"):
        weights = operands[1] if len(operands) > 1 else None
        if op.proto.engine == "DEPTHWISE_3x3" and weights is not None and weights.shape[2:] != (3, 3):
            return True
    return False


def has_another_filter(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether the filter of an Int8 convolution does not have the sizes of the argument ``kernel``."""
    for op, (_x, weights, *_rest) in operators(drawn, "Int8Conv", "Int8ConvRelu", "Int8ConvTranspose"):
        kernel = list(window_argument(op.args, "kernel", 2) or ())
        if kernel and weights is not None and weights.ndim == 4 and list(weights.shape[1:3]) != kernel:
            return True
    return False


def has_fewer_ids_than_columns(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether MergeDenseFeatureTensors has fewer ids than its operand has columns."""
    for op, (x, *_rest) in operators(drawn, "MergeDenseFeatureTensors"):
        ids = op.args.integers("feature_ids", ())
        if x is not None and x.ndim > 1 and ids and len(ids) < x.shape[1]:
            return True
    return False


# Operators that compute both results of an element at once, if none of the operands is broadcast.
_AT_ONCE: Final = frozenset({"AddGradient", "DivGradient", "SubGradient"})
# Operators of two results or more that may write the first of them over an operand of both.
OVERWRITING: Final = frozenset({*_AT_ONCE, "AffineChannelGradient", "C10LayerNorm_DontUseThisOpYet", "MulGradient"})


def overwrites_an_operand(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether an operator that reads an operand again, after a result, writes that result over it."""
    for op, operands in operators(drawn, *OVERWRITING):
        shapes = {operand.shape for operand in operands if operand is not None}
        if op.type in _AT_ONCE and len(shapes) == 1:
            continue
        if len(op.outputs) > 1 and not frozenset(op.inputs).isdisjoint(op.outputs):
            return True
    return False


def has_no_filters(drawn: Drawn, expected: Arrays, _: Arrays) -> bool:
    """Whether the model of a convolution without filters fails."""
    return not expected and any(
        weights is not None and 0 in weights.shape for _op, (_x, weights, *_rest) in operators(drawn, *CONVOLUTIONS)
    )


def has_another_state(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether the state of SparseFtrl does not have two numbers per weight, or its gradient not a row per index."""
    for _op, (weights, state, indices, grad, *_rest) in operators(drawn, "SparseFtrl"):
        if weights is None or state is None or indices is None or grad is None or not weights.ndim:
            continue
        if state.size != 2 * weights.size or grad.size != indices.size * prod(weights.shape[1:]):
            return True
    return False


def has_too_few_bytes(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether ByteWeightDequant has fewer bytes than its argument ``shape`` has elements."""
    return any(
        x is not None and x.size < prod(op.args.integers("shape", default=()))
        for op, (x, *_) in operators(drawn, "ByteWeightDequant")
    )


def is_resized_to_another_size(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether the third operand of MatMul, like which the product is resized, has another number of elements."""
    for op, operands in operators(drawn, "MatMul"):
        if len(operands) < 3 or any(operand is None for operand in operands):
            continue
        sizes = []
        for operand, axis, trans, outer in zip(operands, "ab", "ab", (True, False), strict=False):
            assert operand is not None
            cut = op.args.integer(f"axis_{axis}", default=1)
            dims = prod(operand.shape[:cut]), prod(operand.shape[cut:])
            sizes.append(dims[outer == bool(op.args.integer(f"trans_{trans}", default=0))])
        assert operands[2] is not None
        if prod(sizes) != operands[2].size:
            return True
    return False


def is_of_another_shape(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether the shape that ReduceFrontWeightedSumGradient reads has other rows than weights, or others than dY."""
    for op, (weights, dy, shape, *_rest) in operators(drawn, "ReduceFrontWeightedSumGradient"):
        if weights is None or dy is None or shape is None:
            continue
        count, dims = op.args.integer("num_reduce_dim", default=1), shape.reshape(-1).tolist()
        if tuple(dims[count:]) != dy.shape or prod(dims[:count]) != weights.size:
            return True
    return False


def spans_more_than_32_bits(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether integers, or one and 0, are 2**31 or more apart."""
    integers = [0, *(int(each) for array in drawn.inputs.values() if array.dtype.kind == "i" for each in array.flat)]
    return max(integers) - min(integers) >= 2**31

"""Whether operands have the sizes that others give them, for operators that compare few of these or none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Final

import numpy as np
from conformance.corpus import Array

from caffe2_bridge.control import all_operators
from caffe2_bridge.netdef.views import NetView, OpView
from caffe2_frontend.emit.layers.softmax_tree import read_choices, read_paths
from fuzz.exact.deviations.causes import Arrays
from fuzz.exact.deviations.unchecked import operators
from fuzz.exact.drawing.drawn import Drawn
from fuzz.exact.drawing.structure import UNARY

MERGES: Final = tuple(
    f"Merge{features}{values}FeatureTensorsGradient"
    for features in ("Single", "Multi")
    for values in ("Scalar", "List", "Map")
)
# Operators whose output has the dims of their input.
_KEEPING: Final = frozenset({*UNARY, "Int8Quantize", "Int8Dequantize", "Int8Relu"})
# By operator type: the operand whose rows have lengths, and the lengths.
LENGTHS: Final = {
    "AddPadding": (0, 1),
    "FlexibleTopKGradient": (2, 1),
    "RemovePadding": (0, 1),
    "SegmentOneHot": (1, 0),
    "SparseLengthsSumSparseLookup": (0, 1),
    "SparseToDenseMask": (0, 3),
    **{
        f"{sparse}LengthsIndicesInGradient{kind}Gradient": (2, 1)
        for sparse in ("", "Sparse")
        for kind in ("Sum", "Mean")
    },
    **{
        f"SparseAdagradFusedWithSparseLengths{kind}Gradient{how}": (3, 6) if kind == "WeightedSum" else (2, 5)
        for kind in ("Sum", "Mean", "WeightedSum")
        for how in ("", "Approx")
    },
}
# How many operands each feature has.
_FEATURES: Final = {"Scalar": 3, "List": 4, "Map": 5}
MULTIPLE_MERGES: Final = tuple(f"MergeMulti{values}FeatureTensors" for values in _FEATURES)
_SINGLE_FEATURES: Final = {"List": 3, "Map": 4}
SINGLE_MERGES: Final = tuple(f"MergeSingle{values}FeatureTensors" for values in _SINGLE_FEATURES)
# The numbers that YellowFin keeps beside its window.
_MEMORY: Final = 5


def merges_other_counts(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether the gradient of merged features does not have as many rows as these have values in all."""
    for op, operands in operators(drawn, *MERGES):
        fed = [operand for operand in operands if operand is not None]
        if len(fed) < len(operands):
            continue
        *features, gradient = fed
        step = 1 if "Scalar" in op.type else 2
        counts = [_values(op.type, *features[index : index + step]) for index in range(0, len(features), step)]
        known = [count for count in counts if count is not None]
        examples = {operand.size for operand in features[::step]}
        if len(examples) > 1 or len(known) < len(counts) or gradient.shape[:1] != (sum(known),):
            return True
    return False


def merges_other_lengths(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether merged features have other numbers of examples, or one has not as many values as its lengths say."""
    return any(
        len({lengths.size for lengths, *_rest in features}) > 1 or any(map(_has_other_lengths, features))
        for features in _merged(drawn, MULTIPLE_MERGES, _FEATURES)
    )


def merges_other_values(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether lists or maps of one feature have other numbers of examples, or not as many values as they say."""
    for features in _merged(drawn, SINGLE_MERGES, _SINGLE_FEATURES):
        if len({part.size for lengths, *_values, presence in features for part in (lengths, presence)}) > 1:
            return True
        for lengths, *values, presence in features:
            total = int(lengths.reshape(-1)[presence.reshape(-1).astype(bool)].sum(dtype=np.int64))
            if any(value.size < total for value in values):
                return True
    return False


def _merged(drawn: Drawn, types: Sequence[str], counts: Mapping[str, int]) -> Iterator[list[list[Array]]]:
    """The operands of each feature, of the operators of which all are fed; ``counts`` by what a feature holds."""
    for op, operands in operators(drawn, *types):
        fed = [operand for operand in operands if operand is not None]
        step = next(count for values, count in counts.items() if values in op.type)
        if len(fed) == len(operands):
            yield [fed[index : index + step] for index in range(0, len(fed), step)]


def _has_other_lengths(feature: Sequence[Array]) -> bool:
    """Whether lengths, keys, lengths of values and values of a feature contradict each other."""
    lengths, keys, *values = feature
    counts = {int(lengths.sum()), keys.size, values[0].size}
    nested = {value.size for value in values[1:]} | {int(values[0].sum())} if len(values) > 1 else ()
    return len(counts) > 1 or len(nested) > 1


def _values(kind: str, lengths: Array, of: Array | None = None) -> int | None:
    """How many values one feature has; None if its two operands contradict each other."""
    if of is None:
        return int(lengths.sum())
    if "Single" in kind:
        return int(lengths.reshape(-1)[of.reshape(-1)].sum()) if of.size == lengths.size else None
    return int(of.sum()) if of.size == lengths.sum() else None


def has_other_cores(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether cores of TTSparseLengthsSum lack a matrix of an index, or lengths do not add up to the indices."""
    for op, operands in operators(drawn, "TTSparseLengthsSum"):
        counts, columns = (op.args.integers(name, default=(1, 1, 1)) for name in ("factor_i", "factor_j"))
        ranks = op.args.integers("ranks", default=(1, 1, 1, 1))
        *cores, indices, lengths = operands
        if indices is not None and lengths is not None and not _add_up(lengths, indices.size):
            return True
        if indices is not None and indices.size and indices.min() < 0:
            return True
        rest = np.zeros(0, np.int64) if indices is None else indices
        for i, core in reversed(list(enumerate(cores))):
            digits, rest = np.divmod(rest, prod(counts[:i]))
            if core is None:
                continue
            rows, part = divmod(core.size, ranks[i] * columns[i] * ranks[i + 1])
            if part or digits.max(initial=-1) >= rows:
                return True
    return False


def has_other_trains(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether operands of TTSparseLengthsSumGradient are not those of one tensor train.

    They are three cores, lengths, the products of the first core and of the first two, the digits of the indices, and
    the gradient.
    """
    for _op, operands in operators(drawn, "TTSparseLengthsSumGradient"):
        fed = [operand for operand in operands if operand is not None]
        if len(fed) == len(operands) and not _is_one_train(fed[:3], *fed[3:]):
            return True
    return False


def _is_one_train(
    cores: Sequence[Array], lengths: Array, first: Array, both: Array, digits: Array, gradient: Array
) -> bool:
    if any(core.ndim != 4 for core in cores) or digits.ndim != 2 or digits.shape[1] != len(cores):
        return False
    if not _add_up(lengths, len(digits)):
        return False
    rows, ranks = [1], [1]
    for core, chosen in zip(cores, digits.T, strict=True):
        if core.shape[1] != ranks[-1] or bool(((chosen < 0) | (chosen >= len(core))).any()):
            return False
        rows.append(rows[-1] * core.shape[2])
        ranks.append(core.shape[3])
    shapes = ((len(digits), rows[1], ranks[1]), (len(digits), rows[2], ranks[2]), (lengths.size, rows[3] * ranks[3]))
    return (first.shape, both.shape, gradient.shape) == shapes


def has_too_few_weights(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether SparseLengthsPositionalWeightedSum has a segment with more rows than there are weights."""
    return any(
        weights is not None and lengths is not None and lengths.max(initial=0) > weights.size
        for _op, (_table, weights, _indices, lengths, *_rest) in operators(drawn, "SparseLengthsPositionalWeightedSum")
    )


def merges_other_ids(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether a list of MergeIdLists has not as many ids as its lengths say."""
    for _op, operands in operators(drawn, "MergeIdLists"):
        for lengths, ids in zip(operands[::2], operands[1::2], strict=False):
            if lengths is not None and ids is not None and not _add_up(lengths, ids.size):
                return True
    return False


def has_other_sum_of_lengths(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether a length is negative, or lengths do not add up to the number of rows that they are for."""
    for op, operands in operators(drawn, *LENGTHS):
        rows, lengths = ((*operands, None, None)[index] for index in LENGTHS[op.type])
        if lengths is None or rows is None or not rows.ndim:
            continue
        if not _add_up(lengths, len(rows)):
            return True
    return False


def _add_up(lengths: Array, count: int) -> bool:
    """Whether lengths are not negative, and are those of so many rows."""
    return bool((lengths >= 0).all()) and int(lengths.sum()) == count


def scatters_other_planes(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether the indices or updates of a Scatter are larger than its data along another dim than its axis."""
    for op, operands in operators(drawn, "Scatter"):
        data, *others = operands
        axis = op.args.integer("axis", default=1)
        for other in others:
            if data is None or other is None or data.ndim != other.ndim:
                continue
            larger = np.array(other.shape) > data.shape
            if larger[np.arange(data.ndim) != axis % max(data.ndim, 1)].any():
                return True
    return False


def picks_from_other_planes(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether the indices of TopKGradient have other dims than its last operand, beside the axis."""
    for op, (_gradient, indices, x, *_rest) in operators(drawn, "TopKGradient"):
        if indices is None or x is None or indices.ndim != x.ndim or not x.ndim:
            continue
        is_other = np.array(indices.shape) != x.shape
        is_other[op.args.integer("axis", default=-1) % x.ndim] = False
        if is_other.any():
            return True
    return False


def has_another_count(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether the gradient of BooleanMask does not have as many rows as its mask has true elements."""
    return any(
        mask is not None and gradient is not None and gradient.shape[:1] != (mask.sum(),)
        for _op, (mask, gradient, *_rest) in operators(drawn, "BooleanMaskGradient")
    )


def has_other_probabilities(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether a gradient of SpatialSoftmaxWithLoss has other than one probability for each score."""
    return any(
        operands[0] is not None and operands[-2] is not None and operands[0].size != operands[-2].size
        for _op, operands in operators(drawn, "SpatialSoftmaxWithLossGradient")
    )


def has_another_window(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether the window of YellowFin does not have its width, its memory not five numbers, or it has no iteration.

    Before the first iteration Caffe2 writes in front of the window.
    """
    for op, operands in operators(drawn, "YellowFin"):
        window, memory, iteration = operands[4], operands[7], operands[9]
        if iteration is not None and iteration.size and iteration.reshape(-1)[0] < 1:
            return True
        if window is not None and window.size != op.args.integer("curv_win_width", default=20):
            return True
        if memory is not None and memory.size != _MEMORY:
            return True
    return False


def has_other_classes(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether operands of a hierarchical softmax have other sizes than its tree or other operands give them."""
    for op, operands in operators(drawn, "HSoftmax", "HSoftmaxGradient", "HSoftmaxSearch"):
        x, weights, bias = operands[:3]
        if x is None or weights is None or bias is None:
            continue
        rows = len(x) if x.ndim else 1
        if bias.size < _classes(op) or weights.size != bias.size * (x.size // max(rows, 1)):
            return True
        if op.type != "HSoftmaxSearch" and _has_other_labels(op, rows, *operands[3:]):
            return True
    return False


def _has_other_labels(op: OpView, rows: int, labels: Array | None, *results: Array | None) -> bool:
    """Whether there are not as many labels as rows, or the results of the forward operator do not follow from them."""
    if labels is None:
        return False
    sizes = {word: sum(2 * step.length for step in path) for word, path in read_paths(_tree(op, "hierarchy")).items()}
    of_results = (sum(sizes.get(int(label), 0) for label in labels.reshape(-1)), rows)
    pairs = zip(results, of_results, strict=False)
    return labels.size != rows or any(result is not None and result.size != size for result, size in pairs)


def _classes(op: OpView) -> int:
    """How many rows of weights the tree of a hierarchical softmax needs."""
    if op.type == "HSoftmaxSearch":
        choices = read_choices(_tree(op, "tree"))
        return max((choice.index + choice.length for choice in choices), default=0)
    steps = [step for path in read_paths(_tree(op, "hierarchy")).values() for step in path]
    return max((step.index + step.length for step in steps), default=0)


def _tree(op: OpView, name: str) -> bytes:
    raw = op.args.raw(name)
    return b"" if raw is None else raw.s


def has_other_planes(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether the image of an Int8 convolution has other channels than its filters."""
    shapes = dims_known(drawn)
    for op in all_operators(NetView(drawn.net)):
        if op.type in ("Int8Conv", "Int8ConvRelu") and set(op.inputs[:2]) <= set(shapes):
            axis = 1 if op.args.text("order", default="NCHW") == "NCHW" else -1
            image, filters = (shapes[name] for name in op.inputs[:2])
            group = op.args.integer("group", default=1)
            if len(image) == len(filters) == 4 and image[axis] != filters[axis] * group:
                return True
    return False


def dims_known(drawn: Drawn) -> dict[str, tuple[int, ...]]:
    """The dims of inputs, of fills, and of what operators that keep them make of these."""
    shapes = {name: array.shape for name, array in drawn.inputs.items()}
    for op in all_operators(NetView(drawn.net)):
        if op.type in ("Int8GivenTensorFill", "Int8GivenIntTensorFill"):
            shapes[op.outputs[0]] = tuple(op.args.integers("shape", default=()))
        elif op.type in _KEEPING and op.inputs[0] in shapes:
            shapes[op.outputs[0]] = shapes[op.inputs[0]]
    return shapes


def has_other_channels(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether AffineChannel or its gradient has another number of scales or biases than of channels."""
    for op, (x, *factors) in operators(drawn, "AffineChannel", "AffineChannelGradient"):
        count = 1 if op.type.endswith("Gradient") else 2
        axis = -1 if op.args.text("order", default="NCHW") == "NHWC" else 1
        if x is None or x.ndim < 2:
            continue
        if any(each is not None and each.size != x.shape[axis] for each in factors[:count]):
            return True
    return False


def has_other_states(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether the states of an InferenceLSTM are of other sequences than its input."""
    for op, (x, *rest) in operators(drawn, "InferenceLSTM"):
        axis = 0 if op.args.flag("batch_first", default=False) else 1
        if x is None or x.ndim != 3:
            continue
        if any(state is not None and state.shape[1:2] != x.shape[axis : axis + 1] for state in rest[:2]):
            return True
    return False


def has_longer_segments(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether a segment of UnpackSegments is longer than its row of the data."""
    return any(
        lengths is not None and x is not None and x.ndim > 1 and lengths.max(initial=0) > x.shape[1]
        for _op, (lengths, x, *_rest) in operators(drawn, "UnpackSegments")
    )


def has_segments_beyond_rows(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether the segments of a gradient of LengthsMax together have more rows than its main operand."""
    return any(
        lengths is not None and x is not None and x.ndim > 0 and lengths.sum(dtype=np.int64) > len(x)
        for _op, (_y, _dy, lengths, x, *_rest) in operators(drawn, "LengthsMaxWithMainInputAndForwardOutputGradient")
    )


def has_other_partitions(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether a partition of GatherByKey does not have as many rows as keys belong to it."""
    for _op, (keys, *parts) in operators(drawn, "GatherByKey"):
        if keys is None or any(part is None or not part.ndim for part in parts):
            continue
        counts = np.bincount(np.mod(keys.reshape(-1).astype(np.int64), len(parts)), minlength=len(parts))
        if counts.tolist() != [len(part) for part in parts if part is not None]:
            return True
    return False

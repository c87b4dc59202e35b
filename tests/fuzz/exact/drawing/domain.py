"""The domain of operators: what Caffe2 documents or checks of their operands. Outside of it nothing is compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from conformance.corpus import Array, is_gradient

from caffe2_bridge.control import all_operators
from caffe2_bridge.netdef.views import NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef
from fuzz.exact.drawing.drawn import Drawn

# The operands that are known, by index: others are absent, or another operator computes them.
Operands = Mapping[int, Array]


@dataclass(frozen=True)
class Precondition:
    """What operators of some types ask of their operands. Those of ATen are named ``ATen~topk``."""

    says: str
    types: frozenset[str]
    holds: Callable[[OpView, Operands], bool]


def _types(*templates: str) -> frozenset[str]:
    """Operator types; braces stand for each of their parts: ``Reduce{Front|Back}Sum``."""
    found: list[str] = []
    for template in " ".join(templates).split():
        head, brace, tail = template.partition("{")
        inner, _, rest = tail.partition("}")
        found += _types(*(head + part + rest for part in inner.split("|"))) if brace else [template]
    return frozenset(found)


def _by_type(table: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    return {kind: value for templates, value in table.items() for kind in _types(templates)}


# Beyond these sizes sums and products leave the range or absorb others; below them divisors and squares do.
_SIZES: Final = {"float16": (1e-4, 1e2), "float32": (1e-20, 1e6), "float64": (1e-20, 1e6)}
# Operators that are defined for every float: elementwise arithmetic, and those that move elements.
_ANY_FLOAT: Final = _types(
    "Abs Acos Asin Atan Cbrt Ceil Cos Cosh Cube Erf Exp Floor Log Log1p Negative Reciprocal Relu Rsqrt Sigmoid Sin",
    "Sinh Softsign Sqr Sqrt Tan Tanh Add Sub Mul Div Sum EQ NE GT GE LT LE Where IsNaN NanCheck ReplaceNaN",
    "ConstantFill GivenTensorFill Copy StopGradient Alias Shape Size Reshape ResizeLike Flatten{|ToVec} Squeeze",
    "ExpandDims Transpose NCHW2NHWC NHWC2NCHW Concat Split Slice Tile Gather BooleanMask LengthsPad",
    "PackSegments PackRecords HalfToFloat If",
)
# Operands that have elements, of operators of which the others need not; all of them where none is listed.
_WITH_ELEMENTS: Final = _by_type(
    {
        "LayerNorm C10LayerNorm_DontUseThisOpYet LRN{|Gradient} InstanceNorm GroupNorm BatchMoments PReluGradient": (),
        "Reduce{Front|Back}{Sum|Mean|Max}{|Gradient} {Row|Col}wiseMax Arg{Max|Min} ATen": (),
        "Col2Im RMACRegions {UpsampleBilinear|ResizeNearest|ResizeNearest3D}Gradient": (),
        "DotProduct{|WithPadding}{|Gradient} BatchMatMul ConcatBatchMatMulBatchGatherOp PairWiseLoss ViterbiPath": (),
        "CTCBeamSearchDecoder WeightedMultiSampling InferenceLSTM RecurrentNetwork{|Gradient} RoIPool": (),
        "{Float|Half|HalfFloat}ToFused{2|4|8}Bit{|Fake}RowwiseQuantized{|HalfScaleBias}": (),
        "FloatToRowwiseQuantized8Bits SpatialSoftmaxWithLoss": (),
        "{|Int8}Reshape Gather BatchGather BatchGatherGradient ScatterWeightedSum SparseToDense": (0,),
        "FC{|Transposed}Gradient": (1,),
        "Conv{|1D|2D|3D}{|Gradient} ConvTranspose{|Gradient} ConvRelu Int8Conv{|Relu|Transpose}": (1,),
    }
)
# The operand with indices, the one that they are for, and its axis: of most of these only a build of Caffe2 for
# debugging checks them, of Gather with match_outer those of the first row alone.
_INDEXED: Final = _by_type(
    {
        "Accuracy MultiClassAccuracy SwapBestPath BatchGather": (1, 0, 1),
        "BatchPermutation CopyRowsToTensor EnsureClipped Gather SparseNormalize QuantDecode": (1, 0, 0),
        "ScatterAssign SparseLpRegularizer": (1, 0, 0),
        "RowWiseCounter": (2, 1, 0),
        "ScatterWeightedSum": (2, 0, 0),
        "RowWiseSparseAdam SparseAdadelta SparseAdam": (3, 0, 0),
        "SparseStorm": (4, 0, 0),
    }
)
_FROM_THE_END: Final = _types("Gather BatchGather")
# The operand with rows, and their lengths.
_LENGTHS: Final = _by_type(
    {"AddPadding SparseLengthsSumSparseLookup": (0, 1), "SegmentOneHot": (1, 0), "SparseToDenseMask": (0, 3)}
)
# Operators whose operands go together in ways that the drawing does not know: sizes, arguments, indices, booleans and
# strings stay as recorded, and all elements of the operands listed. So do those of gradients that are not elementwise.
AS_RECORDED: Final = _by_type(
    {
        "HSoftmax{|Search} MergeIdLists MergeDenseFeatureTensors GatherByKey TrimDataset SparseFtrl": (),
        "Merge{Single|Multi}{Scalar|List|Map}FeatureTensors {Gather|Remove}Padding UnpackSegments": (),
        "ByteWeightDequant AffineChannel SparseLengthsPositionalWeightedSum Scatter": (),
        "ATen~{embedding_bag|gather|max_pool1d|pow|prod|roll} LengthsSplit OneHot Range String{Prefix|Suffix}": (),
        "BatchToSpace ReduceFrontWeightedSum InferenceLSTM Int8{Conv|ConvRelu|ConvTranspose} TTSparseLengthsSum": (),
        "BisectPercentile KeySplit MarginRankingCriterion": (),
        "SinusoidPositionEncoding DistributeFpnProposals FusedRandRowwiseQuantizedToFloat Float16SparseNormalize": (0,),
        "RoI{Align|AlignRotated|Pool}{|Gradient} Int8RoIAlign ATen~grid_sampler{|_2d|_3d}": (1,),
        "SparseWngrad": (1,),
        "Lars": (0, 1),
        "{ResizeNearest|ResizeNearest3D|UpsampleBilinear}Gradient": (2,),
        "BBoxTransform": (0, 2),
        "BatchBucket{ize|OneHot}": (2, 3),
        "GenerateProposals{|CPP} BoxWithNMSLimit PiecewiseLinearTransform": (1, 2, 3),
        "Collect{|AndDistributeFpn}RpnProposals YellowFin": tuple(range(20)),
    }
)
_ELEMENTWISE: Final = _types(
    "{Abs|Acos|Asin|Atan|Cbrt|Clip|Cos|Cosh|Cube|Elu|Erf|LeakyRelu|Log1p|Logit|Reciprocal|Relu|ReluN|Rsqrt|Selu}Gradient",
    "{Sigmoid|Sin|Sinh|Softplus|Softsign|Tan|Tanh|ThresholdedRelu}Gradient",
)
# Arguments that Caffe2 does not check, and that say how an operand was made.
_FIXED: Final = frozenset({"Y_scale", "Y_zero_point", "legacy_pad", "link_offset", "link_window"})


def _is_ordinary(array: Array) -> bool:
    least, most = _SIZES.get(array.dtype.name, (0, np.inf))
    if array.dtype.kind != "f":
        return True
    sizes = np.abs(array[array != 0])
    return bool(((sizes >= least) & (sizes <= most)).all())  # nor a NaN


def _has_ordinary_floats(op: OpView, operands: Operands) -> bool:
    numbers = [number for arg in op.proto.arg for number in (arg.f, *arg.floats)]
    return all(map(_is_ordinary, (np.array(numbers, np.float32), *operands.values())))


def _has_elements(op: OpView, operands: Operands) -> bool:
    return all(operands[i].size for i in _WITH_ELEMENTS[op.type]) and (
        bool(_WITH_ELEMENTS[op.type]) or all(operand.size for operand in operands.values())
    )


def _has_indices(op: OpView, operands: Operands) -> bool:
    index, table, axis = _INDEXED[op.type]
    indices, dims = operands[index], operands[table].shape or (1,)  # a scalar counts as one row
    size = dims[next((arg.i for arg in op.proto.arg if arg.name == "axis"), axis)]
    least = -size if op.type in _FROM_THE_END else 0
    return indices.dtype.kind not in "iu" or bool(((indices >= least) & (indices < size)).all())


def _has_lengths(op: OpView, operands: Operands) -> bool:
    rows, lengths = (operands[i] for i in _LENGTHS[op.type])
    return bool((lengths >= 0).all()) and int(lengths.sum()) == len(rows)


def _has_ordinary_scales(op: OpView, operands: Operands) -> bool:
    """Whether the scale and the bias behind each row of codes are ordinary: float32 of eight bits, or else float16."""
    size, dtype = (8, "float32") if "8Bit" in op.type and "Half" not in op.type.split("To")[0] else (4, "float16")
    return _is_ordinary(np.ascontiguousarray(operands[0][..., -size:]).view(dtype))


PRECONDITIONS: Final = (
    Precondition("operands have elements", frozenset(_WITH_ELEMENTS), _has_elements),
    Precondition("an index is one of what it indexes", frozenset(_INDEXED), _has_indices),
    Precondition("lengths add up to the rows that they are for", frozenset(_LENGTHS), _has_lengths),
    Precondition(
        "the scale and bias of a row of codes are ordinary floats",
        _types(
            "Fused{2|4|8}BitRowwiseQuantized{|HalfScaleBias}To{Float|Half|HalfFloat}",
            "SparseLengths{Mean|Sum|WeightedSum}Fused{2|4|8}BitRowwise",
        ),
        _has_ordinary_scales,
    ),
    Precondition(
        "no two scores are equal, whose order an unstable sort decides",
        _types(
            "LambdaRankNdcg HSoftmaxSearch GenerateProposals{|CPP} BoxWithNMSLimit",
            "ATen~{argsort|kthvalue|median|mode|sort|topk}",
        ),
        lambda _, operands: len(np.unique(operands[0])) == operands[0].size,
    ),
    Precondition(
        "lengths are at most the number of rows that are reduced",
        _types("Reduce{Front|Back}{Sum|Mean|Max}"),
        lambda op, operands: bool((operands[1] <= operands[0].shape[-1 if "Back" in op.type else 0]).all()),
    ),
    Precondition(
        "float32 holds the number of an iteration",
        _types("LearningRate"),
        lambda _, operands: bool((np.abs(operands[0]) < 2**24).all()),
    ),
    Precondition(
        "scores are probabilities",
        _types("CTCBeamSearchDecoder"),
        lambda _, operands: bool(((operands[0] >= 0) & (operands[0] <= 1)).all()),
    ),
    Precondition(
        "the first result is not written over an operand that is read again for the second",
        _types("{Add|Sub|Mul|Div|AffineChannel}Gradient C10LayerNorm_DontUseThisOpYet"),
        lambda op, _: len(op.outputs) < 2 or frozenset(op.inputs).isdisjoint(op.outputs),
    ),
)
ORDINARY: Final = (
    "floats, of arguments too, are finite, and neither so large nor so small that sums and products lose them, but of "
    "elementwise operators and of those that move elements"
)
GO_TOGETHER: Final = "operands go together in ways that Caffe2 does not check: sizes and indices are as recorded"


def outside(drawn: Drawn, computed: Mapping[str, Array] | None = None) -> str:
    """Return why a case is outside of the domain of an operator, as far as its operands are known; empty if it is not.

    ``computed`` are the results of operators, which others read.
    """
    blobs = {**(computed or {}), **drawn.inputs}
    for op in all_operators(NetView(drawn.net)):
        operands = {index: blobs[name] for index, name in enumerate(op.inputs) if name in blobs}
        name = _name(op)
        if op.type not in _ANY_FLOAT and not _has_ordinary_floats(op, operands):
            return f"{name}: {ORDINARY}"
        for each in PRECONDITIONS:
            if not each.types.isdisjoint({name, op.type}) and not _holds(each, op, operands):
                return f"{name}: {each.says}"
        if drawn.recorded is not None and not _is_as_recorded(op, name, drawn, drawn.recorded):
            return f"{name}: {GO_TOGETHER}"
    return drawn.unrelated


def _name(op: OpView) -> str:
    of_aten = (arg.s.decode(errors="replace") for arg in op.proto.arg if arg.name == "operator")
    return f"ATen~{next(of_aten, '')}" if op.type == "ATen" else op.type


def _holds(each: Precondition, op: OpView, operands: Operands) -> bool:
    try:
        return each.holds(op, operands)
    except (KeyError, TypeError, ValueError, IndexError):  # not known, or of types and ranks that Caffe2 refuses
        return True


def _is_as_recorded(op: OpView, name: str, drawn: Drawn, recorded: Drawn) -> bool:
    """Whether an operator has the arguments that it was recorded with, and its operands what belongs together."""
    before = [each.proto for each in all_operators(NetView(recorded.net)) if each.type == op.type]
    is_delicate = (
        name in AS_RECORDED
        or (is_gradient(op.type) and op.type not in _ELEMENTWISE)
        or any(arg.name == "legacy_pad" or arg.s == b"reflect" for arg in op.proto.arg)
        or op.engine == "DEPTHWISE_3x3"
        or (op.type == "MatMul" and len(op.inputs) > 2)  # of the shape of the third
    )

    def arguments(proto: OperatorDef) -> list[bytes]:
        return sorted(arg.SerializeToString() for arg in proto.arg if is_delicate or arg.name in _FIXED)

    if not before:  # added to the case
        return True
    if all(arguments(op.proto) != arguments(each) for each in before):
        return False
    whole = {op.inputs[i] for i in AS_RECORDED.get(name, ()) if i < len(op.inputs)}
    raw = {name.removesuffix("/raw"): array for name, array in drawn.inputs.items()}  # of which operators make operands
    is_fed = is_gradient(op.type) or recorded.inputs.keys() >= {*op.inputs}
    return not is_delicate or all(
        _is_like(raw[each], recorded.inputs[each], whole=each in whole) and (each in drawn.inputs or each not in whole)
        for each in (op.inputs if is_fed else recorded.inputs)
        if each in recorded.inputs and each in raw
    )


def _is_like(array: Array, recorded: Array, *, whole: bool) -> bool:
    """Whether an operand has the shape of a recorded one, and its elements, but for floats and bytes."""
    if array.shape != recorded.shape:
        return False
    plain = array.dtype.kind == "f" or (array.dtype.itemsize == 1 and array.dtype != bool)
    return (plain and not whole) or np.array_equal(array, recorded)

"""Facts about ONNX's own operators, each stated once: passes, the import, runtimes and validation read them here.

Every operator of the newest opset is in one of :data:`KINDS`; a test compares them with ONNX's schemas, and with what
these say of random numbers, bodies and results. What a runtime lacks or does wrong is no fact of an operator:
docs/adding-an-opset.md lists where that stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Elementwise, with a result of the type of the operands. Functions have one operand.
FUNCTIONS: Final = _names("""
    Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish
    LeakyRelu Log Mish Neg Not Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Swish Tan
    Tanh ThresholdedRelu
""")
ARITHMETIC: Final = _names("Add BitShift Div Mod Mul Pow Sub")
LOGIC: Final = _names("And Or Xor")
BITWISE: Final = _names("BitwiseAnd BitwiseOr BitwiseXor")
VARIADIC: Final = _names("Max Mean Min Sum")  # any number of operands
CHOICES: Final = _names("Where")
# Elementwise, with a result of another type.
TESTS: Final = _names("IsInf IsNaN")
CASTS: Final = _names("Cast")
COMPARISONS: Final = _names("Equal Greater GreaterOrEqual Less LessOrEqual")
# Elementwise in the first operand; others are bounds, slopes, scales or modes.
GUIDED: Final = _names("BitCast CastLike Clip DequantizeLinear Dropout PRelu QuantizeLinear SwiGLU")

# Operators that move elements of the first operand, and do not compute with them: all in their order, some, all in
# another order, several times.
VIEWS: Final = _names("Flatten Identity Reshape Squeeze Unsqueeze")
PARTS: Final = _names("Compress Gather GatherElements GatherND Slice Split")
PERMUTATIONS: Final = _names("DepthToSpace ReverseSequence SpaceToDepth Transpose")
REPEATS: Final = _names("Expand Tile")
# Elements of several operands, or of one and a constant.
JOINS: Final = _names("CenterCropPad Concat Pad Scatter ScatterElements ScatterND TensorScatter Trilu")

REDUCTIONS: Final = _names("""
    ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare
""")
PRODUCTS: Final = _names("Gemm MatMul")
MEASURES: Final = _names("Shape Size")  # results depend on the shape of the operand alone
RANDOM: Final = _names("Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike")
# How many elements a result is computed from depends on attributes, and not on its size.
WINDOWED: Final = _names("""
    AveragePool CausalConvWithState Col2Im Conv ConvInteger ConvTranspose DeformConv LpPool MaxPool MaxRoiPool MaxUnpool
    QLinearConv RoiAlign
""")
SEQUENCE_MAKERS: Final = _names("SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SplitToSequence")
SEQUENCE_READERS: Final = _names("ConcatFromSequence SequenceAt SequenceLength")
# Those with bodies, and the attributes that these are.
BODIES: Final[Mapping[str, tuple[str, ...]]] = {
    "If": ("then_branch", "else_branch"), "Loop": ("body",), "Scan": ("body",), "SequenceMap": ("body",),
}  # fmt: skip
LOOPS: Final = _names("Loop Scan")


@dataclass(frozen=True)
class Recurrence:
    """A recurrent operator: its gates, in the order of the weights, the number of its states, and its activations."""

    gates: str
    states: int
    activations: tuple[str, ...]


RECURRENT: Final[Mapping[str, Recurrence]] = {
    "GRU": Recurrence("zrh", 1, ("Sigmoid", "Tanh")),
    "LSTM": Recurrence("iofc", 2, ("Sigmoid", "Tanh", "Tanh")),
    "RNN": Recurrence("i", 1, ("Tanh",)),
}
# Activations of recurrent operators that have no parameters.
PLAIN_ACTIVATIONS: Final = ("Sigmoid", "Tanh", "Relu", "Softsign", "Softplus")
# The default of the parameter of those that have one, alone or in an activation.
ALPHAS: Final[Mapping[str, float]] = {"Elu": 1.0, "LeakyRelu": 0.01, "ThresholdedRelu": 1.0}

OTHERS: Final = _names("""
    AffineGrid ArgMax ArgMin Attention BatchNormalization BlackmanWindow Constant ConstantOfShape CumProd CumSum DFT Det
    DynamicQuantizeLinear Einsum EyeLike GlobalAveragePool GlobalLpPool GlobalMaxPool GridSample GroupNormalization
    HammingWindow HannWindow Hardmax ImageDecoder InstanceNormalization LRN LayerNormalization LinearAttention
    LogSoftmax LpNormalization MatMulInteger MeanVarianceNormalization MelWeightMatrix NegativeLogLikelihoodLoss
    NonMaxSuppression NonZero OneHot Optional OptionalGetElement OptionalHasElement QLinearMatMul RMSNormalization Range
    RegexFullMatch Resize RotaryEmbedding STFT Softmax SoftmaxCrossEntropyLoss StringConcat StringNormalizer StringSplit
    TfIdfVectorizer TopK Unique Upsample
""")

KINDS: Final = (
    FUNCTIONS, ARITHMETIC, LOGIC, BITWISE, VARIADIC, CHOICES, TESTS, CASTS, COMPARISONS, GUIDED, VIEWS, PARTS,
    PERMUTATIONS, REPEATS, JOINS, REDUCTIONS, PRODUCTS, MEASURES, RANDOM, WINDOWED, SEQUENCE_MAKERS, SEQUENCE_READERS,
    frozenset(BODIES), frozenset(RECURRENT), OTHERS,
)  # fmt: skip

# Elementwise operators of several operands, which are broadcast to one shape, and all.
BROADCASTING: Final = ARITHMETIC | LOGIC | BITWISE | VARIADIC | CHOICES | COMPARISONS
ELEMENTWISE: Final = FUNCTIONS | TESTS | CASTS | BROADCASTING | {"Identity"}
# Results do not depend on the order of the operands.
COMMUTATIVE: Final = LOGIC | BITWISE | VARIADIC | {"Add", "Equal", "Mul"}
# Exactly rounded, or copies: an element does not depend on its position, as it may in a vectorized logarithm, or in a
# maximum with NaN.
EXACT: Final = (
    LOGIC | BITWISE | CHOICES | CASTS | COMPARISONS
    | {"Abs", "Add", "Div", "Identity", "Mul", "Neg", "Not", "Shrink", "Sign", "Sqrt", "Sub"}
)  # fmt: skip
# Every element of the result is one of the first operand; one of any operand, or a constant.
OF_FIRST: Final = VIEWS | PARTS | PERMUTATIONS | REPEATS
MOVES: Final = OF_FIRST | JOINS

# The shape of the result depends on constants that are not integers; elsewhere these are weights.
SIZED_BY_NUMBERS: Final = _names("OneHot Range Resize")
# Results are as large as the contents of operands say; ONNX infers the size unless they are malformed.
SIZED_BY_CONTENTS: Final = SIZED_BY_NUMBERS | _names("""
    AffineGrid BlackmanWindow CenterCropPad Col2Im DFT Expand HammingWindow HannWindow MaxUnpool MelWeightMatrix Pad
    STFT Tile Upsample
""")

# ONNX's reference evaluator does not end for operands of other shapes than they should have.
UNENDING: Final = _names("GatherElements")

"""The operator ATen: what torch 1.9.1 computes for the ATen operators of the table, by name, arguments and inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from conformance.corpus import Array
from conformance.recording import ArgumentValue, Spec, case, generator


def real(seed: int, *shape: int) -> Array:
    return generator(seed).standard_normal(shape, dtype="float32")


def positive(seed: int, *shape: int) -> Array:
    return generator(seed).uniform(0.2, 3.0, size=shape).astype("float32")


def integers(seed: int, low: int, high: int, *shape: int, dtype: str = "int64") -> Array:
    return generator(seed).integers(low, high, size=shape).astype(dtype)


def aten(name: str, *inputs: Array, outputs: int = 1, **args: ArgumentValue) -> Spec:
    feeds: Mapping[str, Array] = {f"x{i}": value for i, value in enumerate(inputs)}
    names = [f"y{i}" for i in range(outputs)]
    return case("ATen", feeds, outputs=names, args={"operator": name, **args})


X = real(1, 2, 3, 4)
M = real(2, 3, 4)
I = integers(3, -5, 6, 2, 3)  # noqa: E741 - the integers
I32 = I.astype("int32")
B = integers(4, 0, 2, 2, 3) > 0
IMAGE = real(5, 1, 2, 6, 8)
HALVES = np.array([[-2.5, -1.5, -0.5], [0.5, 1.5, 2.7]], "float32")
NONZERO = np.where(I == 0, 2, I)

FUNCTIONS = ("exp", "sigmoid", "tanh", "sin", "cos", "tan", "atan", "sinh", "cosh", "asinh", "erf", "expm1", "erfc")
OF_POSITIVE = ("log", "sqrt", "rsqrt", "reciprocal", "log2", "log10", "log1p")
INSIDE_ONE = ("asin", "acos", "atanh")
BINARY = ("add", "sub", "rsub", "mul", "div", "remainder", "fmod", "floor_divide")
COMPARED = ("eq", "ne", "lt", "le", "gt", "ge")

ELEMENTWISE = [
    *(aten(name, M) for name in FUNCTIONS),
    *(aten(name, positive(6, 3, 4)) for name in OF_POSITIVE),
    *(aten(name, np.tanh(M)) for name in INSIDE_ONE),
    *(aten(name, I) for name in ("exp", "sigmoid", "abs", "neg", "sign", "relu", "square")),
    *(aten(name, M) for name in ("abs", "neg", "sign", "relu", "square", "isnan", "logical_not")),
    *(aten(name, HALVES) for name in ("floor", "ceil", "round", "trunc", "frac")),
    *(aten(name, B) for name in ("logical_not", "bitwise_not")),
    aten("bitwise_not", I),
    *(aten(name, M, positive(7, 4)) for name in BINARY),
    *(aten(name, I, NONZERO) for name in BINARY),
    *(aten(name, I, other=3) for name in BINARY),
    *(aten(name, M, other=-0.75) for name in BINARY),
    *(aten(name, I, other=2.5) for name in ("add", "mul", "div")),
    *(aten(name, I, M[:2, :3]) for name in ("add", "mul", "maximum", "lt")),
    *(aten(name, I32, np.array(7, "int64")) for name in ("add", "mul", "maximum")),
    *(aten(name, I32, np.array(1.5, "float32")) for name in ("add", "mul")),
    *(aten(name, M, np.array(2, "int64")) for name in ("add", "pow")),
    *(aten(name, M, M[:1], alpha=0.5) for name in ("add", "sub", "rsub")),
    aten("mul", B, I),
    aten("mul", B, B[:1]),
    aten("add", B, other=2),
    *(aten(name, I, other=1) for name in COMPARED),
    *(aten(name, M, np.round(M)) for name in COMPARED),
    *(aten(name, B, B[:1]) for name in COMPARED),
    *(aten(f"__{name}__", B, B[:1]) for name in ("and", "or", "xor")),
    *(aten(f"__{name}__", I, I[:1]) for name in ("and", "or", "xor")),
    *(aten(f"bitwise_{name}", I, other=6) for name in ("and", "or", "xor")),
    *(aten(f"logical_{name}", I, B) for name in ("and", "or", "xor")),
    *(aten(name, M, M[::-1].copy()) for name in ("max", "min", "maximum", "minimum")),
    *(aten("pow", positive(8, 3, 4), exponent=e) for e in (2, 0.5, -1.5)),
    aten("pow", I, exponent=2),
    aten("pow", M, self=2.0),
    aten("pow", positive(9, 3, 4), M),
    aten("clamp", M, np.array(-0.5, "float32"), np.array(0.5, "float32")),
    aten("clamp", M, np.full(4, 0.1, "float32")),
    aten("clamp_min", M, min=0.25),
    aten("clamp_max", M, max=-0.25),
    aten("clamp_min", I, min=1),
    aten("where", B, M[:2, :3], np.zeros((1, 3), "float32")),
    aten("where", B, M[:2, :3].astype("float64"), other=1.5),
    aten("where", B, I, self=4),
    aten("where", B, self=1.5, other=-1.0),
    aten("where", B, outputs=2),
    aten("masked_fill", M[:2, :3], B, value=-9.0),
    aten("masked_fill", I, B, value=4),
    aten("masked_fill", M[:2, :3], B[:1], np.array(2.5, "float32")),
    aten("addcmul", M, M[:1], positive(10, 3, 4), value=0.5),
    aten("addcdiv", M, M[:1], positive(11, 3, 4)),
    aten("lerp", M, M[:1], weight=0.25),
    aten("lerp", M, M[:1], positive(12, 3, 4)),
    aten("type_as", M * 3, I),
    aten("type_as", I, B),
    *(aten(f"_cast_{name}", M * 3) for name in ("Byte", "Char", "Short", "Int", "Long", "Double")),
    aten("_cast_Float", I),
    *(aten(name, M) for name in ("alias", "clone", "contiguous", "detach")),
    aten("dropout", M, p=0.5, train=0),
]

ACTIVATIONS = [
    *(aten(name, M * 2) for name in ("selu", "log_sigmoid", "silu", "gelu", "hardtanh", "celu", "elu", "leaky_relu")),
    *(aten(name, M * 4) for name in ("hardswish", "hardsigmoid", "softplus")),
    aten("leaky_relu", M, negative_slope=0.3),
    aten("celu", M, alpha=0.5),
    aten("elu", M, alpha=0.5),
    aten("elu", M, alpha=0.5, scale=1.5, input_scale=0.7),
    aten("hardtanh", M, min_val=-0.5, max_val=0.25),
    aten("softplus", M * 10, beta=2.0, threshold=3.0),
    aten("threshold", M, threshold=0.1, value=-7.0),
    aten("threshold", np.array([0, np.nan, np.inf], "float32"), threshold=np.nan, value=-7.0),
    aten("prelu", X, np.array([0.1, 0.2, 0.3], "float32")),
    aten("prelu", M, np.array([0.1], "float32")),
    *(aten("glu", real(13, 2, 4, 6), dim=dim) for dim in (-1, 1)),
    *(aten(name, X, dim=dim) for name in ("softmax", "log_softmax") for dim in (-1, 1)),
    *(aten(name, X, dim=0, half_to_float=0) for name in ("_softmax", "_log_softmax")),
]

REDUCTIONS = [
    *(aten(name, X) for name in ("sum", "mean", "prod", "max", "min", "amax", "amin", "std", "var", "norm", "argmax")),
    *(aten(name, X, dim=[-1]) for name in ("sum", "mean", "amax", "std", "var", "logsumexp", "frobenius_norm")),
    *(aten(name, X, dim=[0, 2], keepdim=1) for name in ("sum", "mean", "amin", "logsumexp", "frobenius_norm")),
    aten("prod", X, dim=1),
    aten("prod", X, dim=1, keepdim=1),
    *(aten(name, I) for name in ("sum", "prod", "max", "min", "argmin")),
    aten("sum", I32, dim=[1]),
    aten("sum", B),
    *(aten(name, X, dim=dim, outputs=2) for name in ("max", "min") for dim in (0, -1)),
    aten("max", X, dim=1, keepdim=1, outputs=2),
    aten("max", I, dim=1, keepdim=1, outputs=2),
    *(aten(name, X, dim=[1], unbiased=u, keepdim=1) for name in ("std", "var") for u in (0, 1)),
    aten("std", X, unbiased=0),
    aten("var", X, dim=[0, 2], unbiased=1),
    *(aten(name, X, dim=[1, 2], outputs=2) for name in ("std_mean", "var_mean")),
    *(aten("norm", X, p=p) for p in (1, 2, 3.0, 0.5, 0)),
    *(aten(name, B) for name in ("any", "all")),
    *(aten(name, B, dim=1) for name in ("any", "all")),
    aten("any", B, dim=0, keepdim=1),
    *(aten(name, x) for name in ("any", "all") for x in (B[:0], I[:, :0], (I > 0)[:0].astype("uint8"))),
    aten("any", B[:, :0], dim=1),
    *(aten(name, B, dim=1, outputs=2) for name in ("max", "min")),
    *(aten(name, B) for name in ("amax", "amin", "max", "min")),
    # Squares of integers wrap around, and their root is one of float32.
    *(
        aten("frobenius_norm", integers(23, -(2**bits), 2**bits, 3, 4, dtype=t), dim=[0, 1])
        for bits, t in ((31, "int64"), (19, "int64"), (31, "int32"), (7, "int8"))
    ),
    aten("frobenius_norm", np.array([[58833765972672585]]), dim=[0, 1], keepdim=1),
    aten("frobenius_norm", B, dim=[0, 1]),
    *(aten("cumsum", X, dim=dim) for dim in (0, -1)),
    aten("cumsum", I32, dim=1),
    aten("cosine_similarity", X, X[:, ::-1].copy()),
    aten("cosine_similarity", X, X[:1], dim=-1, eps=1e-6),
    aten("pairwise_distance", M, M[::-1].copy()),
    aten("pairwise_distance", M, M[::-1].copy(), p=1.0, eps=1e-3, keepdim=1),
]

SHAPES = [
    *(aten("unsqueeze", M, dim=dim) for dim in (0, 2, -1, -3)),
    aten("squeeze", X[:1]),
    aten("squeeze", X[:1], dim=0),
    aten("squeeze", X, dim=1),
    aten("view", X, size=[2, -1]),
    aten("reshape", X, shape=[4, 3, 2]),
    aten("_unsafe_view", X, size=[-1]),
    aten("view_as", X, real(14, 4, 6)),
    aten("flatten", X),
    aten("flatten", X, start_dim=1),
    aten("flatten", X, start_dim=0, end_dim=1),
    aten("transpose", X, dim0=0, dim1=-1),
    aten("permute", X, dims=[2, 0, -2]),
    aten("t", M),
    aten("numpy_T", X),
    aten("expand", M[:1], size=[2, 3, -1]),
    aten("expand", M, size=[2, 3, 4], implicit=1),
    aten("expand_as", M[:1], X),
    aten("repeat", M, repeats=[2, 1, 3]),
    *(aten(name, X, X[:, :, ::-1].copy(), dim=dim) for name in ("cat", "stack") for dim in (0, 1, -1)),
    aten("cat", M[:2, :3], I32),
    aten("cat", M, np.zeros(0, "float32"), dim=1),
    aten("chunk", X, chunks=2, outputs=2),
    aten("chunk", X, chunks=2, dim=1, outputs=2),
    aten("chunk", real(15, 5, 2), chunks=4, outputs=3),
    aten("split", X, split_size=2, dim=1, outputs=2),
    aten("split_with_sizes", X, split_sizes=[1, 3], dim=2, outputs=2),
    aten("unbind", X, outputs=2),
    aten("unbind", X, dim=-2, outputs=3),
    aten("narrow", X, dim=2, start=1, length=2),
    aten("narrow", X, dim=-1, start=-3, length=2),
    *(aten("select", X, dim=dim, index=index) for dim, index in ((0, 1), (-1, -2))),
    aten("slice", X),
    aten("slice", X, dim=1),
    aten("flip", X, dims=[0, -1]),
    aten("fliplr", M),
    aten("flipud", M),
    aten("roll", X, shifts=[1, -2], dims=[0, 2]),
    aten("roll", X, shifts=[5]),
    *(aten("unfold", X, dimension=2, size=size, step=step) for size, step in ((2, 1), (3, 1), (2, 2))),
    aten("unfold", real(16, 7, 3), dimension=0, size=3, step=2),
    aten("constant_pad_nd", X, pad=[1, 2]),
    aten("constant_pad_nd", X, pad=[1, -1, 0, 2], value=2.5),
    aten("constant_pad_nd", I, pad=[1, 0], value=3),
    aten("reflection_pad1d", X, padding=[2, 1]),
    aten("reflection_pad2d", IMAGE, padding=[1, 2, 3, 0]),
    aten("replication_pad1d", X, padding=[2, 1]),
    aten("replication_pad2d", IMAGE, padding=[1, 2, 3, 0]),
    aten("pixel_shuffle", real(17, 2, 8, 3, 5), upscale_factor=2),
    aten("pixel_shuffle", real(18, 8, 3, 5), upscale_factor=2),
    aten("pixel_unshuffle", real(19, 2, 3, 4, 6), downscale_factor=2),
    *(aten(name, M, diagonal=d) for name in ("tril", "triu") for d in (-1, 0, 2)),
    aten("meshgrid", real(20, 3), real(21, 2), outputs=2),
]

INDICES = [
    aten("embedding", M, integers(22, 0, 3, 2, 5)),
    aten("embedding", M, integers(23, 0, 3, 4, dtype="int32"), padding_idx=1),
    aten("embedding", M, integers(24, 0, 3, 4), padding_idx=-1, scale_grad_by_freq=0, sparse=0),
    *(aten("index_select", X, integers(25, 0, 2, 5), dim=dim) for dim in (0, -1)),
    aten("index_select", X, np.array([2, 0], "int32"), dim=1),
    *(aten("gather", X, integers(26, 0, 2, 2, 3, 4), dim=dim) for dim in (0, 1, -1)),
    aten("gather", X, integers(27, 0, 3, 1, 2, 3), dim=1),
    aten("take", X, integers(28, 0, 24, 2, 2)),
    aten("index", X, integers(29, -2, 2, 5)),
    aten("index", X, integers(30, 0, 2, 5), integers(31, 0, 3, 5)),
    aten("index", X, integers(32, 0, 2, 2, 1), integers(33, 0, 3, 4)),
    aten("index", X, B),
    aten("index", X, np.array([True, False])),
    aten("masked_select", M[:2, :3], B),
    aten("masked_select", M[:2, :3], B[:1]),
    aten("nonzero", I),
    aten("scatter", M, np.array([[0, 2, 1, 0]]), real(34, 1, 4), dim=0),
    aten("scatter", M, np.array([[0], [2], [3]]), real(35, 3, 2), dim=1),
    aten("scatter", M, np.array([[0, 2, 1, 0]]), dim=0, value=9.0),
    aten("scatter_add", M, np.array([[0, 0, 1, 0], [0, 0, 1, 2]]), real(36, 2, 4), dim=0),
    aten("index_fill", M, np.array([0, 2]), dim=1, value=7.0),
    aten("index_fill", M, np.array([1]), np.array(3.0, "float32"), dim=0),
    aten("topk", X, k=2, outputs=2),
    aten("topk", X, k=2, dim=1, outputs=2),
    aten("topk", X, k=1, dim=0, largest=0, sorted=1, outputs=2),
    aten("sort", X, outputs=2),
    aten("sort", X, dim=1, descending=1, outputs=2),
    aten("argsort", X, dim=0),
    aten("msort", X),
    aten("one_hot", integers(37, 0, 4, 2, 3), num_classes=5),
    aten("one_hot", np.array([1, 3, 0])),
    *(
        aten("embedding_bag", M, integers(38, 0, 3, 6), np.array([0, 2, 2, 5]), scale_grad_by_freq=0, mode=mode)
        for mode in (0, 1)
    ),
]

PRODUCTS = [
    *(aten(name, M, M.T.copy()) for name in ("mm", "matmul")),
    aten("bmm", X, X.transpose(0, 2, 1).copy()),
    aten("matmul", X, M.T.copy()),
    aten("mv", M, M[0]),
    aten("dot", M[0], M[1]),
    aten("addmm", real(39, 3), M, real(40, 4, 3)),
    aten("addmm", real(41, 3, 3), M, real(42, 4, 3), beta=0.5, alpha=2.0),
    aten("addmm", np.full((3, 3), np.nan, "float32"), M, real(43, 4, 3), beta=0, alpha=1),
    aten("addmm", I[:, :2], I[:, :2], I[:, 1:]),
    aten("baddbmm", real(44, 2, 3, 3), X, X.transpose(0, 2, 1).copy(), beta=0.5, alpha=2.0),
    aten("addmv", real(45, 3), M, M[0]),
    aten("addbmm", real(46, 3, 3), X, X.transpose(0, 2, 1).copy()),
    aten("linear", X, real(47, 5, 4), real(48, 5)),
    aten("linear", X, real(49, 5, 4)),
]

CHANNELS = [real(50, 4), real(51, 4), real(52, 4), positive(53, 4)]
FEATURES = real(54, 2, 4, 5)


def sized(dims: int, seed: int) -> Array:
    return real(seed, 1, 2, *(5, 6, 7)[:dims])


NETWORKS = [
    aten("layer_norm", X, normalized_shape=[4]),
    aten("layer_norm", X, real(55, 3, 4), real(56, 3, 4), normalized_shape=[3, 4], eps=1e-3),
    aten("group_norm", FEATURES, num_groups=2),
    aten("group_norm", FEATURES, CHANNELS[0], CHANNELS[1], num_groups=2, eps=1e-3, cudnn_enabled=1),
    *(
        aten("instance_norm", FEATURES, *CHANNELS, use_input_stats=own, momentum=0.1, eps=1e-3, cudnn_enabled=0)
        for own in (0, 1)
    ),
    aten("batch_norm", FEATURES, *CHANNELS, training=0, momentum=0.1, eps=1e-3, cudnn_enabled=0),
    *(
        aten(
            "grid_sampler",
            IMAGE,
            real(57, 1, 3, 4, 2),
            interpolation_mode=mode,
            padding_mode=padding,
            align_corners=align,
        )
        for mode in (0, 1, 2)
        for padding in (0, 1, 2)
        for align in (0, 1)
    ),
    aten(
        "grid_sampler",
        real(58, 1, 2, 3, 4, 5),
        np.tanh(real(59, 1, 2, 3, 4, 3)),
        interpolation_mode=0,
        padding_mode=0,
        align_corners=0,
    ),
    *(aten(f"upsample_nearest{n}d", sized(n, 60), output_size=list((7, 3, 11)[:n])) for n in (1, 2, 3)),
    *(
        aten(f"upsample_{name}{n}d", sized(n, 61), output_size=list(size[:n]), align_corners=align)
        for n, name in ((1, "linear"), (2, "bilinear"), (3, "trilinear"))
        for size in ((7, 3, 11), (1, 12, 14))
        for align in (0, 1)
    ),
    *(aten("upsample_bicubic2d", sized(2, 62), output_size=[8, 9], align_corners=align) for align in (0, 1)),
    *(aten(f"adaptive_avg_pool{n}d", sized(n, 63), output_size=list((2, 4, 3)[:n])) for n in (1, 2, 3)),
    *(aten("adaptive_avg_pool2d", IMAGE, output_size=size) for size in ([1, 1], [3, 4], [6, 8], [7, 7], [1, 3])),
    *(aten("adaptive_max_pool2d", IMAGE, output_size=size) for size in ([1, 1], [3, 4], [4, 5])),
    aten("avg_pool2d", IMAGE, kernel_size=[2, 3]),
    *(
        aten(
            "avg_pool2d",
            IMAGE,
            kernel_size=[3, 3],
            stride=[2, 2],
            padding=[1, 1],
            ceil_mode=ceil,
            count_include_pad=count,
        )
        for ceil in (0, 1)
        for count in (0, 1)
    ),
    aten("avg_pool1d", sized(1, 64), kernel_size=[2]),
    aten("max_pool2d", IMAGE, kernel_size=[2, 2]),
    *(
        aten("max_pool2d", IMAGE, kernel_size=[3, 2], stride=[2, 2], padding=[1, 0], dilation=[1, 2], ceil_mode=ceil)
        for ceil in (0, 1)
    ),
    aten("max_pool1d", sized(1, 65), kernel_size=[2]),
]

CASES: Sequence[Any] = [
    *ELEMENTWISE, *ACTIVATIONS, *REDUCTIONS, *SHAPES, *INDICES, *PRODUCTS, *NETWORKS,
    # Unknown to the operator: an ATen operator, an argument, a number of inputs.
    aten("no_such_operator", M),
    aten("exp", M, dim=1),
    aten("addmm", M),
    # A number for integers loses its fraction, and must fit them.
    *(
        aten(name, I.astype(dtype), **numbers)
        for dtype in ("int8", "uint8", "int32")
        for name, numbers in (
            ("clamp_max", {"max": 2.75}), ("clamp_min", {"min": -1.5}), ("clamp_max", {"max": 300.5}),
            ("threshold", {"threshold": -1.9, "value": 7.9}),
        )
    ),
    *(aten("masked_fill", I[:2, :3], B, value=value) for value in (1.75, -1.75)),
    aten("index_fill", I, np.array([1]), dim=1, value=-1.75),
    aten("nonzero", M.astype("float64")),
    aten("nonzero", np.array([[0, np.nan], [-0.0, 2]], "float32")),
    # Rows that are shorter than the window.
    *(
        aten("max_pool1d", np.ones((2, 3, length), np.float32), kernel_size=[3], stride=[stride])
        for length, stride in ((1, 2), (2, 1), (2, 4), (0, 3))
    ),
    # Powers of integers wrap around; those of negative exponents are rounded toward zero.
    *(
        aten("pow", np.array([3, 2, 7, 0, 1, 5], dtype), np.array([5, 9, 20, 0, 3, 0], dtype))
        for dtype in ("uint8", "int8", "int16", "int32", "int64")
    ),
    *(
        aten("pow", np.array([[-3, 2, -1, 0, -1, 1]], dtype), np.array([[3], [-1], [-2], [0]], dtype))
        for dtype in ("int8", "int32", "int64")
    ),
    aten("pow", np.array([3, 2], "int32"), np.array([50, 40])),
    aten("pow", np.array([3, -2], "int8"), np.array([5, 11], "uint8")),
    aten("pow", np.array([-1, 1, 2, -1]), np.array([-(2**63), -(2**63), -(2**63), 2**63 - 1])),
    aten("pow", np.zeros((0, 3), "int8"), np.zeros((1, 3), "int8")),
    *(aten("pow", np.array([3, 2, 0, 1], dtype), exponent=60) for dtype in ("uint8", "int8", "int32", "int64")),
    *(aten("pow", np.array([3, 0], "int32"), exponent=exponent) for exponent in (0, 1, -1)),
    *(aten("pow", np.array([3, 63, 0], dtype), self=3) for dtype in ("uint8", "int16", "int64")),
    aten("pow", np.array([True, False]), np.array([True, True])),
    # Element types that onnxruntime has no kernels for.
    *(
        aten(name, I.astype("int16"), **args)
        for name, args in (
            ("hardtanh", {"min_val": -2, "max_val": 3}), ("clamp_min", {"min": -1}), ("clamp_max", {"max": 2}),
            ("relu", {}),
            ("constant_pad_nd", {"pad": [1, 2], "value": 5}),
            ("amax", {"dim": [1]}), ("amin", {"dim": [0]}), ("max", {}), ("min", {}),
        )
    ),
    *(aten("neg", np.array([0, 1, 255], dtype)) for dtype in ("uint8", "int16")),
    *(
        aten("tril", np.arange(9).reshape(3, 3).astype(dtype))
        for dtype in ("uint8", "int8", "int16", "float16", "bool")
    ),
    *(
        aten("pixel_shuffle", np.arange(16).reshape(1, 4, 2, 2).astype(dtype), upscale_factor=2)
        for dtype in ("uint8", "int16", "int64", "float64", "bool")
    ),
    *(aten("square", np.array([1, 0, 200]).astype(dtype)) for dtype in ("bool", "uint8", "int16")),
    *(
        aten(name, np.array([1, 3, 100], a), np.array([300, 2, 7], b))
        for name in ("__and__", "__or__", "__xor__", "bitwise_or")
        for a, b in (("uint8", "int64"), ("int8", "int16"), ("int64", "int16"), ("int32", "bool"), ("bool", "int32"))
    ),
    aten("scatter_add", np.zeros((2, 3), "float16"), np.array([[0, 2], [1, 1]]), M[:2, :2].astype("float16"), dim=1),
    *(aten("masked_fill", M, (M > 0).astype(dtype), value=2.5) for dtype in ("uint8", "int8", "int64")),
    aten("masked_select", M, (M > 0).astype("float32")),
    aten("where", (M > 0).astype("int32"), M, M),
    *(
        aten(name, I.astype(dtype), I32[::-1].copy())
        for name in ("pairwise_distance", "cosine_similarity")
        for dtype in ("int32", "float32")
    ),
    # Products of integers wrap around, and images may lack the batch.
    *(aten("prod", integers(20, -5, 9, 3, 50)), aten("prod", integers(21, 1, 9, 3, 50), dim=1, keepdim=1)),
    *(aten("prod", np.zeros((2, 0), "int64")), aten("prod", np.zeros((2, 0), "int64"), dim=1, keepdim=0)),
    aten("prod", integers(22, 1, 9, 2, 31, 1).astype("int16"), dim=1, keepdim=0),
    aten("pairwise_distance", X, X[:, ::-1].copy()),
    *(
        aten(f"{kind}_pool{count}d", real(23, *(2, 5, 6, 7)[: count + 1]), kernel_size=[2] * count)
        for kind in ("max", "avg")
        for count in (1, 2, 3)
    ),
    *(
        aten("flatten", np.zeros((0, 2, 3, 4), "float32"), start_dim=start, end_dim=end)
        for start, end in ((1, 2), (0, 1))
    ),
    aten("adaptive_avg_pool2d", IMAGE, output_size=[0, 2]),
    aten("roll", M, shifts=[1, 2]),
    *(aten("roll", M, shifts=[shift]) for shift in (5, 50, -50)),
    *(aten("roll", M, shifts=[shift], dims=[1]) for shift in (9, -9, 4)),
    aten("roll", np.zeros((0, 2), "float32"), shifts=[3], dims=[0]),
]  # fmt: skip

"""Operators that Caffe2 has no equal of, of symbolic sizes: in real Caffe2, and there and back, against onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest
from conformance.oracle import OracleRun, run_oracle
from onnx import parser

from caffe2_backend.importer import to_netdef
from caffe2_backend.runtime.sessions.onnx_session import OnnxSession
from caffe2_frontend import to_onnx

SIZES = ({"N": 1, "C": 2, "H": 5, "W": 7, "D": 4}, {"N": 3, "C": 4, "H": 8, "W": 3, "D": 6})
DTYPES = {"float": np.float32, "float16": np.float16, "double": np.float64, "int64": np.int64, "int32": np.int32,
          "int8": np.int8, "uint8": np.uint8, "uint16": np.uint16}  # fmt: skip
Rng = np.random.Generator


@dataclass(frozen=True)
class Case:
    """A graph and its inputs: name to type and dims, letters of which are symbolic; ``opset`` as onnxruntime has it."""

    inputs: dict[str, tuple[str, str]]
    outputs: str
    body: str
    opset: int = 21
    constants: str = ""
    span: tuple[float, float] = (-2, 2)
    tolerance: float = 1e-4

    def model(self) -> onnx.ModelProto:
        declared = ", ".join(f"{kind}[{dims}] {name}" for name, (kind, dims) in self.inputs.items())
        text = f'<ir_version: 10, opset_import: ["": {self.opset}]> g ({declared}) => ({self.outputs})'
        return parser.parse_model(f"{text} {self.constants and f'<{self.constants}>'} {{ {self.body} }}")

    def feeds(self) -> Iterator[dict[str, Any]]:
        for seed, sizes in enumerate(SIZES):
            rng = np.random.default_rng(seed)
            yield {name: self._value(rng, kind, dims, sizes) for name, (kind, dims) in self.inputs.items()}

    def _value(self, rng: Rng, kind: str, dims: str, sizes: dict[str, int]) -> Any:
        shape = [sizes[dim] if dim in sizes else int(dim) for dim in dims.split(",") if dim]
        low, high = self.span
        if np.dtype(DTYPES[kind]).kind in "iu":
            limits = np.iinfo(DTYPES[kind])
            return rng.integers(max(limits.min, -99), min(limits.max, 99), shape).astype(DTYPES[kind])
        return rng.uniform(low, high, shape).astype(DTYPES[kind])


def image(body: str, rank: int = 2, kind: str = "float", **more: Any) -> Case:
    dims = {1: "N,C,W", 2: "N,C,H,W", 3: "N,C,D,H,W"}[rank]
    result = f"{kind}[{','.join('abcde'[: rank + 2])}] y"
    return Case({"x": (kind, dims)}, result, body, **more)


RESIZES = {
    f"resize_{mode}_{place}_{'up' if factor > 1 else 'down'}": image(
        f'y = Resize<mode = "{mode}", coordinate_transformation_mode = "{place}">(x, , s)',
        constants=f"float[4] s = {{1, 1, {factor}, {factor / 1.3}}}",
    )
    for mode in ("nearest", "linear", "cubic")
    for place in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
    for factor in (2.3, 0.7)
} | {
    f"resize_{rounding}_{place}": image(
        f'y = Resize<nearest_mode = "{rounding}", coordinate_transformation_mode = "{place}">(x, , s)', rank=rank,
        constants=f"float[{rank + 2}] s = {{1, 1, {', '.join(['2', '0.6', '1.5'][:rank])}}}",
    )
    for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    for place, rank in (("half_pixel", 1), ("asymmetric", 2), ("align_corners", 3), ("tf_half_pixel_for_nn", 2))
    if place != "tf_half_pixel_for_nn" or rounding == "floor"
} | {
    "resize_sizes": image('y = Resize<mode = "linear", axes = [2, 3]>(x, , , s)', constants="int64[2] s = {6, 9}"),
    "resize_not_larger": image(
        'y = Resize<mode = "nearest", axes = [2, 3], keep_aspect_ratio_policy = "not_larger">(x, , , s)',
        constants="int64[2] s = {6, 9}",
    ),
    "resize_not_smaller": image(
        'y = Resize<mode = "linear", axes = [2, 3], keep_aspect_ratio_policy = "not_smaller">(x, , , s)',
        constants="int64[2] s = {6, 9}",
    ),
    "resize_antialias_linear": image(
        'y = Resize<mode = "linear", antialias = 1>(x, , s)', constants="float[4] s = {1, 1, 0.6, 0.4}"
    ),
    "resize_antialias_cubic": image(
        'y = Resize<mode = "cubic", antialias = 1, cubic_coeff_a = -0.5>(x, , s)',
        constants="float[4] s = {1, 1, 0.6, 0.4}",
    ),
    "resize_exclude_outside": image(
        'y = Resize<mode = "cubic", exclude_outside = 1, cubic_coeff_a = -0.5>(x, , s)',
        constants="float[4] s = {1, 1, 1.6, 2}",
    ),
    "resize_crop": image(
        'y = Resize<mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize", extrapolation_value = 9.0>'
        "(x, r, s)",
        constants="float[4] s = {1, 1, 1.6, 2}, float[8] r = {0, 0, -0.2, 0.3, 1, 1, 0.7, 1.4}",
    ),
    "resize_linear_volume": image('y = Resize<mode = "linear">(x, , s)', rank=3,
                                  constants="float[5] s = {1, 1, 1.5, 0.7, 2}"),
    "resize_of_uint8": image('y = Resize<nearest_mode = "ceil">(x, , s)', kind="uint8",
                             constants="float[4] s = {1, 1, 1.7, 0.7}"),
    "resize_of_float16": image('y = Resize<mode = "linear">(x, , s)', kind="float16", tolerance=2e-3,
                               constants="float[4] s = {1, 1, 1.7, 0.7}"),
}  # fmt: skip

POOLS = {
    f"{kind}_{name}": image(f"y = {kind}<{attributes}>(x)", rank=rank)
    for kind in ("MaxPool", "AveragePool")
    for name, rank, attributes in (
        ("dilated_1d", 1, "kernel_shape = [2], dilations = [2], pads = [1, 0], strides = [2]"),
        ("dilated_2d", 2, "kernel_shape = [2, 2], dilations = [2, 1], pads = [0, 1, 1, 0]"),
        ("dilated_3d", 3, "kernel_shape = [2, 2, 1], dilations = [2, 3, 1], strides = [1, 2, 1]"),
        ("ceil", 2, "kernel_shape = [3, 2], strides = [2, 3], ceil_mode = 1, pads = [1, 0, 0, 1]"),
        ("ceil_dilated", 2, "kernel_shape = [2, 2], strides = [2, 2], dilations = [2, 2], ceil_mode = 1"),
        ("same_upper", 2, 'kernel_shape = [3, 2], auto_pad = "SAME_UPPER"'),
        ("same_strided", 2, 'kernel_shape = [3, 2], auto_pad = "SAME_UPPER", strides = [2, 2]'),
        ("same_lower", 2, 'kernel_shape = [2, 2], auto_pad = "SAME_LOWER"'),
    )
} | {
    "average_counts_pads": image("y = AveragePool<kernel_shape = [2, 2], dilations = [2, 2], pads = [1, 1, 0, 1], "
                                 "count_include_pad = 1>(x)"),
    "average_counts_pads_ceil": image("y = AveragePool<kernel_shape = [3, 2], strides = [2, 2], pads = [1, 1, 1, 0], "
                                      "count_include_pad = 1, ceil_mode = 1>(x)"),
    "max_uint8": image("y = MaxPool<kernel_shape = [2, 2], dilations = [2, 1]>(x)", kind="uint8"),
    "max_int8": image("y = MaxPool<kernel_shape = [2, 2], pads = [1, 0, 0, 1]>(x)", kind="int8"),
    "max_double": image("y = MaxPool<kernel_shape = [2, 2], pads = [1, 0, 0, 1]>(x)", kind="double"),
    "lp_pool": image("y = LpPool<kernel_shape = [2, 2], p = 3, pads = [1, 0, 0, 1]>(x)"),
    "lp_pool_1": image("y = LpPool<kernel_shape = [2], p = 1>(x)", rank=1),
    "global_lp_pool": image("y = GlobalLpPool<p = 2>(x)"),
    "max_pool_indices": Case({"x": ("float", "N,C,H,W")}, "float[a,b,c,d] y, int64[a,b,c,d] i",
                             "y, i = MaxPool<kernel_shape = [2, 3], pads = [1, 1, 0, 1], strides = [2, 1]>(x)"),
    "max_pool_indices_by_column": Case(
        {"x": ("float", "N,C,H,W")}, "float[a,b,c,d] y, int64[a,b,c,d] i",
        "y, i = MaxPool<kernel_shape = [2, 3], strides = [2, 1], storage_order = 1>(x)"),
    "max_unpool": Case(
        {"x": ("float", "N,C,4,6")}, "float[a,b,c,d] z",
        "y, i = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x) "
        "z = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]>(y, i)"),
}  # fmt: skip

GRIDS = {
    f"grid_{mode}_{padding}_{corners}": Case(
        {"x": ("float", "N,C,H,W"), "g": ("float", "N,D,H,2")}, "float[a,b,c,d] y",
        f'y = GridSample<mode = "{mode}", padding_mode = "{padding}", align_corners = {corners}>(x, g)', opset=20,
        tolerance=1e-3,
    )
    for mode in ("nearest", "linear", "cubic")
    for padding in ("zeros", "border", "reflection")
    for corners in (0, 1)
} | {
    "grid_volume": Case({"x": ("float", "N,C,D,H,W"), "g": ("float", "N,W,D,H,3")}, "float[a,b,c,d,e] y",
                        'y = GridSample<padding_mode = "reflection">(x, g)', opset=20, tolerance=1e-3),
    "roi_align": Case({"x": ("float", "1,C,H,W"), "a": ("float", "D,2"), "b": ("float", "D,2")}, "float[a,b,c,d] y",
                      "e = Add(a, b) r = Concat<axis = 1>(a, e) z = Shape<start = 0, end = 1>(r) "
                      "q = ConstantOfShape<value = int64[1] {0}>(z) "
                      "y = RoiAlign<output_height = 2, output_width = 3, sampling_ratio = 2>(x, r, q)", span=(0, 4)),
    "roi_align_shifted": Case(
        {"x": ("float", "1,C,H,W"), "r": ("float", "D,4")}, "float[a,b,c,d] y",
        "z = Shape<start = 0, end = 1>(r) q = ConstantOfShape<value = int64[1] {0}>(z) y = RoiAlign<output_height = 2, "
        'output_width = 3, coordinate_transformation_mode = "output_half_pixel", spatial_scale = 0.5>(x, r, q)',
        span=(0, 8)),
    "max_roi_pool": Case(
        {"x": ("float", "1,C,H,W"), "r": ("float", "D,5")}, "float[a,b,c,d] y",
        "q = Mul(r, k) y = MaxRoiPool<pooled_shape = [2, 3], spatial_scale = 0.5>(x, q)",
        constants="float[5] k = {0, 1, 1, 1, 1}", span=(0, 8)),
    "affine_grid": Case({"t": ("float", "N,2,3"), "x": ("float", "N,C,H,W")}, "float[a,b,c,d] y",
                        "s = Shape(x) y = AffineGrid(t, s)", opset=20),
    "affine_grid_volume": Case({"t": ("float", "N,3,4"), "x": ("float", "N,C,D,H,W")}, "float[a,b,c,d,e] y",
                               "s = Shape(x) y = AffineGrid<align_corners = 1>(t, s)", opset=20),
}  # fmt: skip

EINSUMS = {
    f"einsum_{i}": Case({name: ("float", dims) for name, dims in zip("abc", operands, strict=False)}, f"float[{out}] y",
                        f'y = Einsum<equation = "{equation}">({", ".join("abc"[: len(operands)])})')
    for i, (equation, operands, out) in enumerate((
        ("bij,bjk->bik", ["N,H,W", "N,W,C"], "p,q,r"),
        ("...ij,...jk", ["N,D,H,W", "N,D,W,C"], "p,q,r,s"),
        ("...ij,...jk->...ki", ["3,1,H,W", "3,2,W,C"], "p,q,r,s"),
        ("ii->i", ["H,H"], "p"),
        ("bii->b", ["N,H,H"], "p"),
        ("ij,jk,kl->il", ["H,W", "W,C", "C,D"], "p,q"),
        ("bhid,bhjd->bhij", ["N,C,H,D", "N,C,W,D"], "p,q,r,s"),
        ("i,j->ij", ["H", "W"], "p,q"),
        ("ij->", ["H,W"], ""),
        ("ij->ji", ["H,W"], "p,q"),
        ("abc,cd->dab", ["N,H,W", "W,C"], "p,q,r"),
        ("i,i", ["H", "H"], ""),
    ))
} | {
    "einsum_double": Case({"a": ("double", "N,H,W"), "b": ("double", "W,C")}, "double[p,q,r] y",
                          'y = Einsum<equation = "bij,jk->bik">(a, b)'),
    "matmul_int32": Case({"a": ("int32", "N,H,W"), "b": ("int32", "W,C")}, "int32[p,q,r] y", "y = MatMul(a, b)"),
    "matmul_double": Case({"a": ("double", "H,W"), "b": ("double", "W")}, "double[p] y", "y = MatMul(a, b)"),
    "matmul_float16": Case({"a": ("float16", "H,W"), "b": ("float16", "W,C")}, "float16[p,q] y", "y = MatMul(a, b)",
                           tolerance=5e-3),
    "det": Case({"a": ("float", "N,3,3")}, "float[p] y", "y = Det(a)", tolerance=1e-3),
}  # fmt: skip

CONVOLUTIONS = {
    name: Case({"x": ("float", dims), "w": ("float", kernel)}, f"float[{','.join('abcde'[: len(dims.split(','))])}] y",
               f"y = {kind}<{attributes}>(x, w)", tolerance=1e-3)
    for name, kind, dims, kernel, attributes in (
        ("transpose_dilated", "ConvTranspose", "N,4,H,W", "4,2,3,2", "dilations = [2, 1], strides = [2, 3]"),
        ("transpose_groups", "ConvTranspose", "N,4,H,W", "4,3,2,2",
         "group = 2, dilations = [1, 2], pads = [1, 0, 0, 1], output_padding = [1, 0], strides = [2, 1]"),
        ("transpose_1d", "ConvTranspose", "N,3,W", "3,2,3", "strides = [2], dilations = [2], pads = [1, 2]"),
        ("transpose_3d", "ConvTranspose", "N,3,D,H,W", "3,2,2,1,3", "strides = [2, 1, 1], pads = [1, 0, 0, 0, 0, 1]"),
        ("conv_same_upper", "Conv", "N,3,H,W", "2,3,2,3", 'auto_pad = "SAME_UPPER"'),
        ("conv_same_strided", "Conv", "N,3,H,W", "2,3,2,3", 'auto_pad = "SAME_LOWER", strides = [2, 3]'),
        ("transpose_same", "ConvTranspose", "N,3,H,W", "3,2,3,3", 'auto_pad = "SAME_UPPER", strides = [2, 2]'),
        ("conv_3d", "Conv", "N,2,D,H,W", "4,1,2,2,2", "group = 2, dilations = [1, 2, 1], pads = [1, 0, 0, 0, 2, 1]"),
    )
} | {
    "conv_float16": Case({"x": ("float16", "N,3,H,W"), "w": ("float16", "2,3,2,2")}, "float16[a,b,c,d] y",
                         "y = Conv(x, w)", tolerance=1e-2),
    "conv_integer": Case({"x": ("uint8", "N,3,H,W"), "w": ("uint8", "2,3,2,2")}, "int32[a,b,c,d] y",
                         "y = ConvInteger<pads = [1, 0, 0, 1]>(x, w, z)", constants="uint8 z = {7}"),
    "qlinear_conv": Case(
        {"x": ("uint8", "N,3,H,W"), "w": ("int8", "2,3,2,2")}, "uint8[a,b,c,d] y",
        "y = QLinearConv<pads = [1, 0, 0, 1]>(x, s, z, w, t, k, u, v, b)",
        constants="float s = {0.02}, uint8 z = {7}, float[2] t = {0.1, 0.03}, int8[2] k = {0, 0}, float u = {0.3}, "
                  "uint8 v = {99}, int32[2] b = {40, -900}"),
    "matmul_integer": Case({"a": ("uint8", "N,H,600"), "b": ("int8", "600,W")}, "int32[p,q,r] y",
                           "y = MatMulInteger(a, b, z, k)", constants="uint8 z = {3}, int8 k = {-5}"),
    "qlinear_matmul": Case(
        {"a": ("uint8", "H,20"), "b": ("int8", "20,W")}, "uint8[p,q] y", "y = QLinearMatMul(a, s, z, b, t, k, u, v)",
        constants="float s = {0.02}, uint8 z = {7}, float t = {0.03}, int8 k = {2}, float u = {0.3}, uint8 v = {99}"),
    "dequantize_int32": Case({"x": ("int32", "H,W")}, "float[p,q] y", "y = DequantizeLinear(x, s)",
                             constants="float s = {0.02}"),
    "quantize_blocked": Case({"x": ("float", "H,W"), "s": ("float", "2,W")}, "uint8[p,q] y",
                             "t = Abs(s) y = QuantizeLinear<axis = 0, block_size = 4>(x, t)"),
}  # fmt: skip

OTHERS = {
    "layer_norm": Case({"x": ("float", "N,H,W"), "s": ("float", "H,W")},
                       "float[p,q,r] y, float[p,q,r] m, float[p,q,r] d",
                       "y, m, d = LayerNormalization<axis = 1>(x, s)"),
    "layer_norm_float16": Case({"x": ("float16", "N,H,W"), "s": ("float16", "W")}, "float16[p,q,r] y",
                               "y = LayerNormalization(x, s)", tolerance=1e-2),
    "batch_norm_training": Case(
        {"x": ("float", "N,3,H,W"), "s": ("float", "3"), "b": ("float", "3"), "m": ("float", "3"), "v": ("float", "3")},
        "float[p,q,r,t] y, float[q] n, float[q] o",
        "y, n, o = BatchNormalization<training_mode = 1, momentum = 0.7>(x, s, b, m, v)", tolerance=1e-3),
    "bitwise": Case({"x": ("uint8", "H,W"), "z": ("uint8", "W")}, "uint8[p,q] y",
                    "a = BitwiseAnd(x, z) b = BitwiseOr(x, z) c = BitwiseXor(a, b) y = BitwiseNot(c)"),
    "shift_left": Case({"x": ("uint8", "H,W"), "z": ("uint8", "W")}, "uint8[p,q] y",
                       'b = Mod(z, k) y = BitShift<direction = "LEFT">(x, b)', constants="uint8 k = {8}"),
    "pow_int32": Case({"x": ("int32", "H,W"), "z": ("int32", "W")}, "int32[p,q] y",
                      "a = Mod(x, k) b = Mod(z, k) y = Pow(a, b)", constants="int32 k = {5}"),
    "dft": Case({"x": ("float", "N,H,W,1")}, "float[p,q,r,s] y",
                "y = DFT(x, , a)", constants="int64 a = {1}", opset=20),
    "dft_onesided": Case({"x": ("float", "N,H,W,1")}, "float[p,q,r,s] y",
                         "y = DFT<onesided = 1>(x, , a)", constants="int64 a = {2}", opset=20),
    "dft_complex_longer": Case({"x": ("float", "N,H,2")}, "float[p,q,r] y",
                               "y = DFT(x, n, a)", constants="int64 n = {9}, int64 a = {1}", opset=20),
    "dft_inverse": Case({"x": ("float", "N,H,W,2")}, "float[p,q,r,s] y",
                        "y = DFT<inverse = 1>(x, n, a)", constants="int64 n = {3}, int64 a = {2}", opset=20),
    "stft": Case({"x": ("float", "N,40,1")}, "float[p,q,r,s] y",
                 "y = STFT<onesided = 1>(x, h, w)",
                 constants="int64 h = {4}, float[8] w = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8}"),
    "stft_of_a_matrix": Case({"x": ("float", "N,40")}, "float[p,q,r,s] y",
                             "y = STFT<onesided = 1>(x, h, w)",
                             constants="int64 h = {4}, float[8] w = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8}"),
    "stft_of_unknown_length": Case({"x": ("float", "2,60,1"), "w": ("float", "W")}, "float[p,q,r,s] y",
                                   "y = STFT(x, h, w)", constants="int64 h = {3}"),
    "col2im": Case({"x": ("float", "N,12,30")}, "float[p,q,r,s] y",
         "y = Col2Im<pads = [1, 0, 0, 1], dilations = [1, 2]>(x, i, b)",
         constants="int64[2] i = {7, 6}, int64[2] b = {3, 2}"),
    "expand_float16": Case({"x": ("float16", "H")}, "float16[p,q] y", "y = Expand(x, s)",
                           constants="int64[2] s = {3, 1}"),
    "hann_window": Case({"x": ("float", "H")}, "float[p] y", "n = Size(x) y = HannWindow(n)"),
    "transpose_uint8": Case({"x": ("uint8", "H,W")}, "uint8[p,q] y", "y = Transpose(x)"),
    "group_norm": Case({"x": ("float", "N,4,H,W"), "s": ("float", "4"), "b": ("float", "4")}, "float[p,q,r,t] y",
                       "y = GroupNormalization<num_groups = 2, epsilon = 0.01>(x, s, b)", opset=21),
    "group_norm_by_groups": Case({"x": ("float", "N,4,H"), "s": ("float", "2"), "b": ("float", "2")}, "float[p,q,r] y",
                                 "y = GroupNormalization<num_groups = 2>(x, s, b)", opset=20),
    "rms_norm": Case({"x": ("float", "N,H,W"), "s": ("float", "W")}, "float[p,q,r] y",
                     "y = RMSNormalization(x, s)", opset=23),
}  # fmt: skip

CASES = RESIZES | POOLS | GRIDS | EINSUMS | CONVOLUTIONS | OTHERS


@pytest.fixture(scope="module")
def answers() -> dict[str, list[tuple[list[Any], list[Any]]]]:
    """Of each case and size what real Caffe2 gives and what onnxruntime does; the former as text where it fails."""
    runs, names, expected = [], [], []
    for name, case in CASES.items():
        model = case.model()
        session = OnnxSession(model.SerializeToString(), threads=1)
        net = to_netdef(model)
        for feed in case.feeds():
            runs.append(OracleRun(net.predict_net, feed, net.init_net, list(net.predict_net.external_output)))
            names.append(name)
            expected.append(session.run_values(feed))
    made: dict[str, list[tuple[list[Any], list[Any]]]] = {name: [] for name in CASES}
    for name, run, result, values in zip(names, runs, run_oracle(runs), expected, strict=True):
        assert run.outputs is not None
        ours = [result.error] if result.error else [result.outputs[output] for output in run.outputs]
        made[name].append((ours, values))
    return made


def assert_close(ours: Any, theirs: Any, tolerance: float) -> None:
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    np.testing.assert_allclose(ours.astype(np.float64), theirs.astype(np.float64), rtol=tolerance, atol=tolerance)


@pytest.mark.oracle
@pytest.mark.parametrize("name", CASES)
def test_gives_what_onnxruntime_gives(name: str, answers: dict[str, list[tuple[list[Any], list[Any]]]]) -> None:
    for ours, theirs in answers[name]:
        for a, b in zip(ours, theirs, strict=True):
            assert not isinstance(a, str), a
            assert_close(a, b, CASES[name].tolerance)


@pytest.mark.parametrize("name", CASES)
def test_there_and_back(name: str) -> None:
    model = CASES[name].model()
    original = OnnxSession(model.SerializeToString(), threads=1)
    again = OnnxSession(to_onnx(to_netdef(model)).SerializeToString(), threads=1)
    for feed in CASES[name].feeds():
        for a, b in zip(again.run_values(feed), original.run_values(feed), strict=True):
            assert_close(a, b, CASES[name].tolerance)

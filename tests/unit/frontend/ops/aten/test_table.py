"""ATen operators that real Caffe2's ATen lacks, compared with NumPy; inference from use; refusals by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance.recording import ArgumentValue, operator
from support.exports import dims, export, run, specs_of

from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import describe_inputs, supported_operators
from caffe2_frontend.ops.aten import TABLE

X = np.random.default_rng(1).standard_normal((2, 3, 4), dtype=np.float32)
I = np.arange(-3, 3).reshape(2, 3)  # noqa: E741 - the integers
MASK = I > 0


def aten(name: str, count: int, outputs: int = 1, **args: ArgumentValue) -> OperatorDef:
    inputs = [f"x{i}" for i in range(count)]
    return operator("ATen", inputs, [f"y{i}" for i in range(outputs)], operator=name, **args)


def results(op: OperatorDef, *values: np.ndarray[Any, Any]) -> list[Any]:
    feeds = dict(zip(op.input, values, strict=True))
    known, unknown = (run(export(op, specs_of(feeds, sizes=sizes)), feeds) for sizes in (True, False))
    for a, b in zip(known, unknown, strict=True):
        np.testing.assert_array_equal(a, b)
    return known


@pytest.mark.parametrize(
    ("name", "value", "args", "expected"),
    [
        ("slice", X, {"dim": 2, "start": 1, "end": 3, "step": 1}, X[:, :, 1:3]),
        ("slice", X, {"dim": 1, "start": -2, "end": 2**63 - 1, "step": 2}, X[:, -2::2]),
        ("zeros_like", X, {}, np.zeros_like(X)),
        ("ones_like", I, {"dtype": 6, "layout": 0}, np.ones((2, 3), np.float32)),
        ("full_like", X, {"fill_value": 2.5}, np.full_like(X, 2.5)),
        ("argmax", X, {"dim": 1, "keepdim": 0}, X.argmax(1)),
        ("argmin", X, {"dim": -1, "keepdim": 1}, X.argmin(-1)[..., None]),
        ("clamp", X, {"min": -0.5, "max": 0.5}, X.clip(-0.5, 0.5)),
        ("clamp", I, {"max": 1}, I.clip(None, 1)),
        ("norm", X, {"p": 2.0, "dim": [1], "keepdim": 1}, np.sqrt((X * X).sum(1, keepdims=True))),
        ("norm", X, {"p": float("inf"), "dim": [0, 1], "keepdim": 0}, np.abs(X).max((0, 1))),
        ("to", X, {"dtype": 4}, X.astype(np.int64)),
        ("sum", I, {"dim": [1], "keepdim": 0}, I.sum(1)),
        ("mean", X, {"dim": [2], "keepdim": 0, "dtype": 7}, X.astype(np.float64).mean(2)),
        ("aten::relu", X, {"overload_name": ""}, X.clip(0)),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_operators_of_pytorch(
    name: str, value: np.ndarray[Any, Any], args: dict[str, Any], expected: np.ndarray[Any, Any]
) -> None:
    (found,) = results(aten(name, 1, **args), value)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_chunks_of_an_unknown_size() -> None:
    for size in (6, 7):
        parts = results(aten("chunk", 1, 3, chunks=3, dim=0), np.arange(size))
        np.testing.assert_array_equal(np.concatenate(parts), np.arange(size))


def test_named_dims_stay() -> None:
    model = export(aten("unsqueeze", 1, dim=1), {"x0": ("float32", ("N", "C"))})
    assert dims(model) == ["N", 1, "C"]
    model = export(aten("max", 1, 2, dim=-1), {"x0": ("float32", ("N", "T", 5))})
    assert dims(model, 1) == ["N", "T"]


def test_inputs_are_described_by_the_aten_operator() -> None:
    net = NetDef(op=[aten("embedding", 2)], external_input=["x0", "x1"], external_output=["y0"])
    assert str(describe_inputs(net)["x1"].dtype) == "INT64"
    net = NetDef(op=[aten("upsample_nearest2d", 1, output_size=[2, 2])], external_input=["x0"], external_output=["y0"])
    described = describe_inputs(net)["x0"].shape
    assert described is not None
    assert len(described) == 4


def constants(*values: Any) -> NetDef:
    """Return an init net that fills x1, x2, ... with constants."""
    init = NetDef()
    for i, value in enumerate(values, 1):
        array = np.asarray(value)
        kind = "GivenTensorInt64Fill" if array.dtype.kind in "ib" else "GivenTensorFill"
        filled = array.reshape(-1).tolist()
        init.op.append(operator(kind, [], [f"x{i}"], shape=list(array.shape), values=filled))
    return init


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("max", (1, 0), X.max(1)),
        ("unsqueeze", (-1,), X[..., None]),
        ("permute", ([2, 0, 1],), X.transpose(2, 0, 1)),
        ("leaky_relu", (0.5,), np.where(X > 0, X, X * np.float32(0.5))),
        ("slice", (2, 1, 3, 1), X[:, :, 1:3]),
        ("add", (2.5, 2), X + np.float32(5)),
        ("mul", (2.5,), X * np.float32(2.5)),
        ("clamp", (-0.5, 0.5), X.clip(-0.5, 0.5)),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_parameters_as_constant_inputs(name: str, values: Any, expected: np.ndarray[Any, Any]) -> None:
    model = export(aten(name, 1 + len(values)), {"x0": ("float32", (2, 3, 4))}, constants(*values))
    (found,) = run(model, {"x0": X})
    np.testing.assert_array_equal(found, expected)


def test_tensors_among_the_parameters() -> None:
    model = export(aten("index_select", 3), {"x0": ("float32", (2, 3, 4)), "x2": ("int64", (2,))}, constants(2))
    (found,) = run(model, {"x0": X, "x2": np.array([3, 0])})
    np.testing.assert_array_equal(found, X[:, :, [3, 0]])


def test_an_absent_tensor_among_the_parameters() -> None:
    op = operator("ATen", ["x0", "x1", "", "", "x2", "x3"], ["y0"], operator="layer_norm")
    model = export(op, {"x0": ("float32", (2, 3, 4))}, constants([4], 1e-5, 1))
    (found,) = run(model, {"x0": X})
    centered = X - X.mean(-1, keepdims=True)
    expected = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_parameter_that_is_computed() -> None:
    with pytest.raises(ConversionError, match="input 1, 'dim' of ATen operator 'unsqueeze', must be a constant"):
        export(aten("unsqueeze", 2), {"x0": ("float32", (2, 3)), "x1": ("int64", ())})


def test_masks_without_dims() -> None:
    """They index nothing, and real Caffe2 fails where nothing else does."""
    masks = {"x0": ("float32", (2, 3)), "x1": ("bool", ()), "x2": ("bool", (2,))}
    values = {"x0": X[0, :2, :3], "x1": np.zeros((), bool), "x2": np.array([0, 1], bool)}
    found = run(export(aten("index", 3), masks), values)
    np.testing.assert_array_equal(found[0], X[0, 1:2, :3])
    with pytest.raises(ConversionError, match="an index tensor must be given, or a mask with dims"):
        export(aten("index", 2), {name: masks[name] for name in ("x0", "x1")})


def refusal(op: OperatorDef, **shapes: tuple[int | str, ...]) -> str:
    with pytest.raises(ConversionError) as caught:
        export(op, {name: ("float32", shape) for name, shape in shapes.items()})
    return str(caught.value)


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (aten("uniqe", 1), r"ATen operator 'uniqe' has no conversion"),
        (aten("index_selekt", 1), "index_select"),
        (aten("exp", 1, dim=1), "does not support argument 'dim'"),
        (aten("exp", 2), "has no input 1 with these arguments"),
        (aten("dropout", 1, p=0.5, train=1), "train must be 0"),
        (aten("to", 1, dtype=99), "dtype must be one of"),
        (aten("unsqueeze", 1, dim=5), "out of range"),
        (aten("split", 1, 2, split_size=1, dim=1), "3 parts of size 1"),
        (aten("sum", 1, dim=1), "must be a list of integers"),
        (aten("clamp", 1), "min and max"),
        (aten("grid_sampler", 2, interpolation_mode=3, padding_mode=0), "must be 0, 1 or 2"),
        (operator("ATen", ["x0"], ["y0"]), "argument 'operator' is missing"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_refusals(op: OperatorDef, message: str) -> None:
    assert message in refusal(op, **dict.fromkeys(op.input, (2, 3)))


def test_sizes_that_decide_the_rank_must_be_known() -> None:
    assert "unknown" in refusal(aten("squeeze", 1), x0=("N", 1))
    assert "unknown" in refusal(aten("squeeze", 1, dim=0), x0=("N", 1))
    assert "unknown" in refusal(aten("adaptive_avg_pool2d", 1, output_size=[2, 2]), x0=("N", 3, "H", "W"))


def test_pool_indices_are_not_a_tensor() -> None:
    op = aten("adaptive_max_pool2d", 1, 2, output_size=[1, 1])
    assert "y1" in refusal(op, x0=(1, 2, 3, 3))


def test_the_table() -> None:
    assert "ATen" in supported_operators()["aten"]
    assert len(TABLE) > 180


@pytest.mark.parametrize(("p", "expected"), [(0.0, [2, 3]), (1.0, [7, 6]), (np.inf, [4, 3]), (-np.inf, [0, 1])])
def test_distances_of_any_norm(p: float, expected: list[int]) -> None:
    op = aten("pairwise_distance", 2, p=p, eps=0.0)
    difference = np.array([[3, 0, -4], [1, -2, 3]], np.float32)
    (found,) = results(op, difference + 5, np.full_like(difference, 5))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["mul", "exp", "t"])
def test_element_types_that_pytorch_does_not_have(name: str) -> None:
    count = 2 if name == "mul" else 1
    with pytest.raises(ConversionError, match="not UINT16"):
        export(aten(name, count), {f"x{index}": ("uint16", (2, 3)) for index in range(count)})

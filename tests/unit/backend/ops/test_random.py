"""Random numbers in real Caffe2, of imported models: their element types, shapes and distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance.oracle import OracleRun, run_oracle
from onnx import parser

from caffe2_backend import to_netdef
from caffe2_bridge import ConversionError

COUNT = 20000
UNIFORM = 1 / 12**0.5
TRAINING = "ratio = Constant<value = float {0.4}>() mode = Constant<value = bool {1}>()"


def model(body: str, output: str) -> Any:
    text = f'<ir_version: 10, opset_import: ["": 21]> g (float[N, M] x) => ({output}) {{ {body} }}'
    return to_netdef(parser.parse_model(text))


def drawn(body: str, output: str = "float y", x: float = 0.3) -> Any:
    found = model(body, output)
    inputs = {"x": np.full((COUNT, 2), x, np.float32)}
    result = run_oracle([OracleRun(found.predict_net, inputs, found.init_net, ["y"])])[0]
    assert result.error == ""
    return result.outputs["y"]


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("body", "dtype", "mean", "deviation"),
    [
        (f"y = RandomUniform<shape = [{COUNT}, 2], low = 2.0, high = 4.0>()", "float32", 3, 2 * UNIFORM),
        (f"y = RandomNormal<shape = [{COUNT}, 2], mean = 2.0, scale = 4.0, seed = 1.0>()", "float32", 2, 4),
        ("y = RandomUniformLike(x)", "float32", 0.5, UNIFORM),
        ("y = RandomUniformLike<dtype = 11>(x)", "float64", 0.5, UNIFORM),
        ("a = Cast<to = 7>(x) y = RandomNormalLike<dtype = 1, scale = 0.5>(a)", "float32", 0, 0.5),
        ("y = RandomNormalLike<dtype = 10>(x)", "float16", 0, 1),
        ("y = Bernoulli(x)", "float32", 0.3, 0.21**0.5),
        ("y = Bernoulli<dtype = 7>(x)", "int64", 0.3, 0.21**0.5),
        ("a = Cast<to = 11>(x) y = Bernoulli<dtype = 9>(a)", "bool", 0.3, 0.21**0.5),
        (
            "c = Constant<value = float[2] {0.0, 1.0986123}>() l = Add(x, c) y = Multinomial<sample_size = 2>(l)",
            "int32",
            0.75,
            0.1875**0.5,
        ),
        (f"{TRAINING} y = Dropout(x, ratio, mode)", "float32", 0.3, 0.3 * (0.4 / 0.6) ** 0.5),
        (f"{TRAINING} a, m = Dropout(x, ratio, mode) y = Identity(m)", "bool", 0.6, 0.24**0.5),
    ],
)
def test_distributions(body: str, dtype: str, mean: float, deviation: float) -> None:
    names = {"float32": "float", "float64": "double"}
    y = drawn(body, f"{names.get(dtype, dtype)} y")
    assert (y.dtype.name, y.shape) == (dtype, (COUNT, 2))
    numbers = y.astype(np.float64)
    assert abs(numbers.mean() - mean) < 0.05 * deviation
    assert abs(numbers.std() - deviation) < 0.05 * deviation


def test_equal_nodes_draw_their_own_numbers() -> None:
    made = model("a = RandomNormalLike(x) b = RandomNormalLike(x) y = Sub(a, b)", "float y")
    assert [op.type for op in made.predict_net.op] == ["GaussianFill", "GaussianFill", "Sub"]


@pytest.mark.parametrize("bounds", ["low = 1.0, high = 1.0", "low = 2.0, high = 1.0"])
def test_bounds_that_leave_no_numbers_are_refused(bounds: str) -> None:
    with pytest.raises(ConversionError, match="RandomUniformLike"):
        model(f"y = RandomUniformLike<{bounds}>(x)", "float y")


def test_a_model_that_was_exported_in_training_is_noted(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        made = model(f"{TRAINING} y = Dropout(x, ratio, mode)", "float y")
    assert [(op.type, len(op.output)) for op in made.predict_net.op] == [("Dropout", 2)]
    assert "exported in training" in caplog.text


def test_samples_need_a_number() -> None:
    with pytest.raises(ConversionError, match="sample_size must be positive"):
        model("y = Multinomial<sample_size = 0>(x)", "int32 y")


def test_ratios_at_which_everything_is_dropped_are_refused() -> None:
    with pytest.raises(ConversionError, match="ratio must be at least 0 and less than 1"):
        model(f"{TRAINING.replace('0.4', '1.0')} y = Dropout(x, ratio, mode)", "float y")

"""Random fills: distributions, distinct values and seeds."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from conformance.corpus import Array
from conformance.recording import operator
from support.exports import export, run

from caffe2_bridge.proto.caffe2_pb2 import DeviceOption, OperatorDef, TensorProto


def draw(op: OperatorDef, inputs: Mapping[str, Array]) -> list[Array]:
    return run(export(op, {name: (array.dtype, ("N",) * array.ndim) for name, array in inputs.items()}), inputs)


LIKE = np.zeros((200, 100), "float32")


@pytest.mark.parametrize(
    ("op", "mean", "deviation", "least", "greatest"),
    [
        (operator("UniformFill", ["X"], ["Y"], min=2.0, max=4.0), 3, 2 / 12**0.5, 2, 4),
        (operator("UniformIntFill", ["X"], ["Y"], min=1, max=3), 2, (2 / 3) ** 0.5, 1, 3),
        (operator("GaussianFill", ["X"], ["Y"], mean=1.0, std=2.0), 1, 2, -20, 20),
        (operator("XavierFill", ["X"], ["Y"]), 0, 0.1, -(0.03**0.5), 0.03**0.5),
        (operator("MSRAFill", ["X"], ["Y"]), 0, 0.1, -1, 1),
    ],
    ids=lambda value: value.type if isinstance(value, OperatorDef) else None,
)
def test_random_numbers_have_their_distribution(
    op: OperatorDef, mean: float, deviation: float, least: float, greatest: float
) -> None:
    op.device_option.CopyFrom(DeviceOption(random_seed=7))
    (drawn,) = draw(op, {"X": LIKE})
    assert drawn.shape == LIKE.shape
    assert drawn.mean() == pytest.approx(mean, abs=deviation / 20)
    assert drawn.std() == pytest.approx(deviation, rel=0.05)
    assert least <= drawn.min()
    assert drawn.max() <= greatest


def test_unique_numbers_are_unique_and_avoid() -> None:
    op = operator("UniqueUniformFill", ["X", "avoid"], ["Y"], min=10, max=19)
    op.device_option.CopyFrom(DeviceOption(random_seed=7))
    (drawn,) = draw(op, {"X": np.zeros((2, 3), "float32"), "avoid": np.array([12, 5, 19, 99], "int32")})
    assert drawn.shape == (2, 3)
    assert len(set(drawn.ravel().tolist())) == 6
    assert set(drawn.ravel().tolist()) <= {10, 11, 13, 14, 15, 16, 17, 18}


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        (-5, (1 << 20) + 5, TensorProto.INT32),
        (-(1 << 31), (1 << 31) - 1, TensorProto.INT32),
        (-(1 << 63), (1 << 63) - 1, TensorProto.INT64),
        (1 << 60, (1 << 63) - 1, TensorProto.INT64),
    ],
)
def test_unique_numbers_of_a_large_range(low: int, high: int, dtype: int) -> None:
    op = operator("UniqueUniformFill", ["X", "avoid"], ["Y"], min=low, max=high, dtype=dtype)
    op.device_option.CopyFrom(DeviceOption(random_seed=7))
    type_ = np.int32 if dtype == TensorProto.INT32 else np.int64
    (first,) = draw(op, {"X": np.zeros((2, 3000), "float32"), "avoid": np.zeros(0, type_)})
    values = first.astype(float)
    assert (first.dtype, first.shape, len(set(first.ravel().tolist()))) == (type_, (2, 3000), 6000)
    assert low <= first.min() < low + (high - low) / 500
    assert high - (high - low) / 500 < first.max() <= high
    assert values.mean() == pytest.approx(low + (high - low) / 2, abs=(high - low) / 50)
    # With the same seed as many numbers are drawn as before, and others are at hand for those that are avoided.
    (second,) = draw(op, {"X": np.zeros((2, 3000), "float32"), "avoid": first.ravel()[::2].copy()})
    assert not set(second.ravel().tolist()) & set(first.ravel()[::2].tolist())
    assert len(set(second.ravel().tolist())) == 6000


def test_a_seed_repeats_the_numbers() -> None:
    op = operator("GaussianFill", ["X"], ["Y"])
    op.device_option.CopyFrom(DeviceOption(random_seed=11))
    np.testing.assert_array_equal(draw(op, {"X": LIKE}), draw(op, {"X": LIKE}))


def test_half_uniform_is_half() -> None:
    (drawn,) = draw(operator("Float16UniformFill", [], ["Y"], shape=[50, 2], min=1.0, max=2.0), {})
    assert drawn.dtype == np.float16
    assert drawn.min() >= 1
    assert drawn.max() <= 2

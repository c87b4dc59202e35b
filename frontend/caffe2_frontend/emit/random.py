"""Random elements of a shape that may be known only when the model runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from caffe2_frontend.lowering.op import Op, Value


def random_uniform(
    op: Op,
    shape: Value,
    dims: Sequence[Any] | None = None,
    *,
    low: float = 0.0,
    high: float = 1.0,
    dtype: ir.DataType = ir.DataType.FLOAT,
) -> Value:
    """Emit uniform random elements in [low, high), seeded by the operator's device option.

    ``shape`` is an int64 vector; ``dims`` is what is known of its elements at conversion. The elements take their shape
    from a constant tensor, because ONNX's RandomUniform takes none as an operand.
    """
    like = constant_tensor(op, shape, dims, dtype=dtype)
    return op.emit("RandomUniformLike", like, low=low, high=high, seed=op.view.random_seed, shape=dims)


def constant_tensor(
    op: Op,
    shape: Value,
    dims: Sequence[Any] | None = None,
    *,
    value: float = 0.0,
    dtype: ir.DataType = ir.DataType.FLOAT,
) -> Value:
    """Emit a tensor of equal elements, of the shape in an int64 vector."""
    element = ir.Tensor(np.array([value], dtype.numpy()))
    return op.emit("ConstantOfShape", shape, value=element, shape=dims)

"""Operators of one operand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx

from support.opset_cases.spelling import LAST, X234, Expected, F, Spelling, versions


def spellings() -> Iterator[Spelling]:
    """Yield operators that had ``consumed_inputs`` before opset 6, and those whose defaults changed."""
    x = X234
    functions: dict[str, Expected] = {
        "Abs": np.abs, "Ceil": np.ceil, "Exp": np.exp, "Floor": np.floor, "Neg": np.negative, "Tanh": np.tanh,
        "Relu": lambda x: np.maximum(x, 0), "Reciprocal": lambda x: 1 / x, "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
        "Elu": lambda x: np.where(x < 0, np.exp(x) - 1, x),
        "LeakyRelu": lambda x: np.where(x < 0, 0.01 * x, x).astype(F),
        "HardSigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
        "Selu": lambda x: np.where(x < 0, 1.67326 * 1.0507 * (np.exp(x) - 1), 1.0507 * x).astype(F),
        "Softplus": lambda x: np.log1p(np.exp(x)), "Softsign": lambda x: x / (1 + abs(x)),
        "Identity": lambda x: x,
    }  # fmt: skip
    for name, function in functions.items():
        yield Spelling(1, LAST, "float[2,3,4] x", f"y = {name}(x)", {"x": x}, expected=function)
        if versions(name)[1:2] == (6,):
            node = f"y = {name}<consumed_inputs = [0]>(x)"
            yield Spelling(1, 5, "float[2,3,4] x", node, {"x": x}, expected=function)
    for name, root in (("Log", np.log), ("Sqrt", np.sqrt)):
        yield Spelling(1, LAST, "float[2,3,4] x", f"y = {name}(x)", {"x": abs(x)}, expected=root)
    for bounds, low, high in (("", None, None), ("min = -0.5", -0.5, None), ("max = 0.25, min = -0.5", -0.5, 0.25)):

        def clip(x: Any, low: Any = low, high: Any = high) -> Any:
            return x if low is None and high is None else np.clip(x, low, high)

        yield Spelling(
            1, 10, "float[2,3,4] x", f"y = Clip<{bounds}>(x)" if bounds else "y = Clip(x)", {"x": x}, expected=clip
        )
        operands = ", ".join(["x", *("" if b is None else n for n, b in (("l", low), ("h", high)))]).rstrip(", ")
        head = ", ".join(f"float {n} = {{{b}}}" for n, b in (("l", low), ("h", high)) if b is not None)
        yield Spelling(11, LAST, "float[2,3,4] x", f"y = Clip({operands})", {"x": x}, f"<{head}>" if head else "", clip)
    for to, dtype, kind in (("INT32", np.int32, "int32"), ("FLOAT", F, "float"), ("BOOL", np.bool_, "bool")):
        yield Spelling(
            1, 5, "float[2,3,4] x", f'y = Cast<to = "{to}">(x)', {"x": x * 3}, kind=kind, expected=_cast(dtype)
        )
        number = onnx.TensorProto.DataType.Value(to)
        yield Spelling(
            6, LAST, "float[2,3,4] x", f"y = Cast<to = {number}>(x)", {"x": x * 3}, kind=kind, expected=_cast(dtype)
        )
    for name in ("IsNaN", "Sign", "Erf", "Round", "IsInf", "Celu", "Mish", "ThresholdedRelu", "Sinh", "Cos"):
        kind = "bool" if name.startswith("Is") else "float"
        yield Spelling(versions(name)[0], 22, "float[2,3,4] x", f"y = {name}(x)", {"x": x}, kind=kind)


def _cast(dtype: Any) -> Expected:
    return lambda x: x.astype(dtype)

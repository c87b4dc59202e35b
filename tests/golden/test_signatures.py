"""What signatures infer of an operand or a result is what real Caffe2 ran with, or computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from conformance.__main__ import GOLDEN
from support.recorded_cases import cases

from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.operators import infer_shapes, is_described

# Shapes that are not the recorded ones.
EXCEPTIONS: Final[Mapping[str, int]] = {
    "AveragePool": 2,  # one kernel size is for two sides, but the image has one
    "BatchMatMul": 9,  # an operand without rows or columns
    "MaxPool": 4,  # as AveragePool
    "Reshape": 6,  # Caffe2 takes the 0 in the shape for an unknown dim where the tensor is empty
}


def test_inferred_shapes_are_the_recorded_ones() -> None:
    wrong: Counter[str] = Counter()
    checked = 0
    for path in sorted([*GOLDEN.glob("ops/*.npz"), *GOLDEN.glob("recorded/ops/*.npz")]):
        if not is_described(path.stem):
            continue
        for net, known, expected, _ in cases(path):
            op = OpView(net.op[0], 0)
            names = [(known, name) for name in op.inputs] + [(expected, name) for name in op.outputs]
            shapes: list[Any] = [tuple(side[name].shape) if name in side else None for side, name in names]
            for index, actual in enumerate(shapes):
                others = [*shapes[:index], None, *shapes[index + 1 :]]
                if actual is None:
                    continue
                count = len(op.inputs)
                found = infer_shapes(op, others[:count], others[count:])[index]
                checked += 1
                if found is not None and (
                    len(found) != len(actual) or any(a not in (b, None) for a, b in zip(found, actual, strict=True))
                ):
                    wrong[op.type] += 1
    assert checked > 6000
    assert wrong == EXCEPTIONS

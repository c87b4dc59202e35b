"""Loop of the reference evaluator, whose own joins rows instead of stacking them, and needs a condition and a step.

As of onnx 1.23: scalars of each iteration become a tensor [N,1], and matrices [2,3] become [2*N,3]; a loop without
iterations fails, and one without a condition makes none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx.reference.ops.op_loop import Loop as PlainLoop

from caffe2_bridge.netdef.parameters import Array


class Loop(PlainLoop):
    """Loop."""

    op_domain = ""

    body: Any  # attributes of the node
    _run_body: Any

    def _run(  # type: ignore[override] # other names, by position
        self, trips: Array | None, condition: Array | None, *carried: Any, context: Any = None, body: Any = None,
        **options: Any,
    ) -> tuple[Any, ...]:  # fmt: skip
        del body  # the one of the node
        turn, again, *names = self.body.input_names
        states, goes_on = list(carried), True if condition is None else bool(condition)
        rows: list[list[Array]] = [[] for _ in range(self.K)]
        count = 0
        while goes_on and (trips is None or count < int(trips)):
            own = {turn: np.array(count, np.int64), again: np.array(goes_on), **dict(zip(names, states, strict=True))}
            found, *values = self._run_body({**(context or {}), **own}, **options)
            goes_on, states = bool(found), values[: self.N]
            for each, value in zip(rows, values[self.N :], strict=True):
                each.append(value)
            count += 1
        types = self.body.output_types[self.N + 1 :]
        stacked = [np.stack(each) if each else _no_rows(kind) for each, kind in zip(rows, types, strict=True)]
        return self._check_and_fix_outputs((*states, *stacked))


def _no_rows(kind: onnx.TypeProto) -> Array:
    """Return the rows of no iteration, of the type of one; a dim that is not declared is 0."""
    dims = [dim.dim_value for dim in kind.tensor_type.shape.dim]
    return np.empty((0, *dims), ir.DataType(kind.tensor_type.elem_type).numpy())

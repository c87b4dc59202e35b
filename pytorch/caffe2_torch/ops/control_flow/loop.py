"""While and ONNXWhile: a net, run again and again."""

from __future__ import annotations

from collections import ChainMap

import torch

from caffe2_bridge.control import OnnxWhile, While
from caffe2_torch.evaluation.context import is_exporting
from caffe2_torch.evaluation.exporting import export_loop
from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value

family = Family("loop")


@family.converts("While")
def loop(op: Op) -> None:
    control = op.control
    assert isinstance(control, While)
    assert control.condition is not None
    if is_exporting():
        test, body = (op.bodies.get(name) for name in (control.condition_argument, control.loop_argument))
        assert body is not None
        export_loop(op, control.condition, test, body)
        return
    while True:
        if control.condition_argument in op.bodies:
            op.bodies[control.condition_argument].run(op.blobs, op.context)
        if not _is_true(op.blobs[control.condition]):
            return
        op.bodies[control.loop_argument].run(op.blobs, op.context)


def _is_true(condition: Value) -> bool:
    return isinstance(condition, torch.Tensor) and bool(condition.reshape(-1)[0])


@family.converts("ONNXWhile")
def onnx_while(op: Op) -> None:
    """Write the final carried values, and the rows of each iteration, concatenated."""
    control = op.control
    assert isinstance(control, OnnxWhile)
    if op.args.flag("save_scopes", default=False) and control.disables_scopes:
        op.refuse("save_scopes and disable_scopes must not both be set")
    count = control.carried
    formals, results = list(control.body.external_input), list(control.body.external_output)
    if len(results) <= count or len(formals) < 2 + count:
        op.refuse("the body has fewer inputs or outputs than the loop carries")
    has_condition = control.has_condition
    op.args.ignore("disable_scopes")
    limit = int(op.tensor(0).reshape(-1)[0]) if control.has_trip_count else None
    carried = [op.values[2 + index] for index in range(count)]
    stacked: list[list[torch.Tensor]] = [[] for _ in results[1 + count :]]
    going, step = op.values[1], 0
    (body,) = op.bodies.values()
    while (limit is None or step < limit) and (not has_condition or _is_true(going)):
        inside: ChainMap[str, Value] = ChainMap({}, op.blobs)
        number = torch.tensor([step], dtype=torch.int64, device=op.context.device)
        inside.update(zip(formals, (number, going, *carried), strict=False))
        body.run(inside, op.context)
        going, *after = (inside[name] for name in results)
        carried = after[:count]
        for rows, value in zip(stacked, after[count:], strict=True):
            if not isinstance(value, torch.Tensor) or value.shape[:1] != (1,):
                op.refuse("what the loop stacks must have a first dim of 1")
            rows.append(value)
        step += 1
        if limit is None and not has_condition:
            op.refuse("the loop has no end")
    # Of a loop of no iterations Caffe2 leaves int32 [0].
    made = (*carried, *(torch.cat(rows) if rows else torch.zeros(0, dtype=torch.int32) for rows in stacked))
    op.blobs.update((name, value) for name, value in zip(op.view.outputs, made, strict=False) if name)

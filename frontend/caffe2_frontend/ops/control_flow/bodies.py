"""What converters of operators with bodies share: the blobs that bodies find, write and leave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import onnx_ir as ir

from caffe2_bridge.control import BodyScope, Do, control_of
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend.emit.operand_checks import require_dtype
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.lowering.reads import count_reads
from caffe2_frontend.ops.control_flow.workspaces import carried_names, is_sequence

CONDITION = {0: TensorInfo(ir.DataType.BOOL, (1,))}


def value_of(op: Op, name: str) -> Value:
    value = op.scope.find(name)
    if value is None:
        op.unsupported(f"{name!r} has no value that is a tensor", code="undefined-blob")
    return value


def condition_of(op: Op, condition: Value) -> Value:
    """Return a condition, which must be a bool."""
    require_dtype(op, condition, (ir.DataType.BOOL,), "the condition")
    return condition


def bound_outputs(op: Op) -> tuple[Value | None, ...]:
    """Return the values of the operator's outputs after its bodies."""
    return tuple(op.scope.find(name) for name in op.view.outputs)


def require_same_type(op: Op, name: str, a: Value, b: Value) -> None:
    if a.dtype != b.dtype:
        kinds = " and ".join("unknown" if v.dtype is None else v.dtype.name for v in (a, b))
        op.unsupported(
            f"{name!r} has different element types: {kinds}",
            hint="cast it to one type in the bodies; or a Workspace runs such a net",
        )


def read_outside(op: Op, names: Iterable[str], nets: Sequence[NetDef]) -> set[str]:
    """Return the blobs, of these, that anything but the operator's own bodies reads."""
    inside = sum((count_reads(net) for net in nets), Counter(op.view.inputs))
    return {name for name in names if op.lowering.reads.counts[name] > inside[name]}


def kept_name(workspace: str, blob: str) -> str:
    """Return the outer name of a blob that is kept in a reused workspace."""
    return f"{workspace}/{blob}"


def kept_reads(control: Do) -> dict[str, str]:
    """Return the outer names of blobs that a net may find in a reused workspace, by the names that it reads."""
    return {name: kept_name(control.stack, name) for name in count_reads(control.net) if name not in control.bindings}


def kept_names(op: Op, control: Do) -> dict[str, str]:
    """Return the outer names of blobs that a net leaves in a workspace, by the names that it writes."""
    return {
        name: kept_name(control.stack, name) for name in written_blobs(op, control.net) if name not in control.bindings
    }


def written_blobs(op: Op, net: NetDef) -> list[str]:
    """Return the blobs that a net writes in its workspace: those of its branches and loops, and kept ones, included."""
    names: list[str] = []
    for inner in NetView(net).ops:
        names += inner.outputs
        control = control_of(inner)
        if isinstance(control, Do):
            if control.stack in op.lowering.reads.reused_stacks and not inner.proto.is_gradient_op:
                names += kept_names(op, control).values()
            names += carried_names(op, control)
            within = written_blobs(op, control.net)
            names += [name for name in within if is_sequence(name)]
        elif control is not None and control.scope is BodyScope.SHARED:
            names += [name for body in control.bodies.values() for name in written_blobs(op, body.net)]
    return names

"""Operators whose outputs are their inputs: copies between devices and types, and stops."""

from __future__ import annotations

from caffe2_bridge.gradients.family import Family
from caffe2_bridge.gradients.forward import Forward, SparseGradient
from caffe2_bridge.netdef.data_type import data_type
from caffe2_bridge.proto.caffe2_pb2 import TensorProto

family = Family("copy")

family.pattern("dY0 X0 -> dX0", Copy="CopyOnDeviceLike")
family.pattern(
    "dY0 -> dX0",
    FloatToHalf="HalfToFloat", HalfToFloat="FloatToHalf", NanCheck="NanCheck",
)  # fmt: skip


@family.differentiates("Alias")
def alias(op: Forward) -> None:
    op.set_dense(0, op.dy(0))


@family.differentiates("CopyCPUToGPU")
def copy_to_gpu(op: Forward) -> None:
    _copy("CopyGPUToCPU", op)


@family.differentiates("CopyGPUToCPU")
def copy_to_cpu(op: Forward) -> None:
    _copy("CopyCPUToGPU", op)


@family.differentiates("CopyRowsToTensor")
def copy_rows(op: Forward) -> None:
    _copy("CopyRowsToTensorGradient", op)


def _copy(op_type: str, op: Forward) -> None:
    """One copy of a dense gradient, two of a sparse one."""
    gradient = op.g_output[0]
    if isinstance(gradient, SparseGradient):
        target = SparseGradient(f"{op.x(0)}_grad_indices", f"{op.x(0)}_grad_values")
        op.set_sparse(0, *target)
        for part, name in zip(gradient, target, strict=True):
            op.emit(op_type, [part], [name])
    else:
        op.emit(op_type, [op.dy(0)], [op.dx(0)])


@family.differentiates("ZeroGradient")
def zero(op: Forward) -> None:
    """A gradient for what no loss depends on."""
    op.emit("ConstantFill", [op.x(0)], [op.dx(0)], value=0.0)


@family.differentiates("Cast", copies_arguments=False)
def cast(op: Forward) -> None:
    """Back to the type before, which the operator must have written down; the type after is float by default."""
    if "from_type" not in op.args:
        raise op.error("argument 'from_type' is missing: the gradient is cast back to it")
    before, after = (data_type(op.args, name, default=TensorProto.FLOAT) for name in ("from_type", "to"))
    op.emit("Cast", [op.dy(0)], [op.dx(0)], to=before, from_type=after)

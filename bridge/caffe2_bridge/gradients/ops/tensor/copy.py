"""Gradients of copies between devices and types, of Alias, and of ZeroGradient."""

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
    """Pass the gradient through."""
    op.set_dense(0, op.dy(0))


@family.differentiates("CopyCPUToGPU")
def copy_to_gpu(op: Forward) -> None:
    """CopyGPUToCPU(dY) -> dX."""
    _copy("CopyGPUToCPU", op)


@family.differentiates("CopyGPUToCPU")
def copy_to_cpu(op: Forward) -> None:
    """CopyCPUToGPU(dY) -> dX."""
    _copy("CopyCPUToGPU", op)


@family.differentiates("CopyRowsToTensor")
def copy_rows(op: Forward) -> None:
    """CopyRowsToTensorGradient(dY) -> dX."""
    _copy("CopyRowsToTensorGradient", op)


def _copy(op_type: str, op: Forward) -> None:
    """Copy a dense gradient, or both parts of a sparse one."""
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
    """ConstantFill(X; value=0) -> dX."""
    op.emit("ConstantFill", [op.x(0)], [op.dx(0)], value=0.0)


@family.differentiates("Cast", copies_arguments=False)
def cast(op: Forward) -> None:
    """Cast(dY; to=from_type, from_type=to) -> dX."""
    if "from_type" not in op.args:
        raise op.error(
            "argument 'from_type' is missing; it must be the data type of the input, to which the gradient is cast"
        )
    before, after = (data_type(op.args, name, default=TensorProto.FLOAT) for name in ("from_type", "to"))
    op.emit("Cast", [op.dy(0)], [op.dx(0)], to=before, from_type=after)

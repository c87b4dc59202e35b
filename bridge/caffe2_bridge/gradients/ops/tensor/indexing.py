"""Gradients of gathers, scatters, masks and sparse tensors."""

from __future__ import annotations

from caffe2_bridge.gradients.family import Family
from caffe2_bridge.gradients.forward import Forward, SparseGradient

family = Family("indexing")

family.pattern("X0 X1 dY0 -> dX0", "BatchGather")
family.pattern("X1 dY0 -> dX0", "BatchPermutation", "BooleanMask")
family.pattern("dY0 X0 -> dX1", SparseToDense="Gather")
family.pattern("X0 X1 dY0 -> dX2", BatchSparseToDense="BatchDenseToSparse")
family.pattern("X0 X1 dY0 X2 -> dX2", BatchDenseToSparse="BatchSparseToDense")
family.pattern("X0 dY0 X3? -> dX1", "SparseToDenseMask")


@family.differentiates("Gather")
def gather(op: Forward) -> None:
    """Set a sparse gradient with the indices and dY; a dense one for another axis than 0, or with ``dense_gradient``.

    BatchGatherGradient(X, indices, dY; axis) -> dX, or SparseToDense(indices, dY, X) -> dX.
    """
    axis = op.args.integer("axis", default=0)
    if axis:
        op.emit("BatchGatherGradient", [op.x(0), op.x(1), op.dy(0)], [op.dx(0)], axis=axis)
    elif op.args.flag("dense_gradient", default=False):
        op.emit("SparseToDense", [op.x(1), op.dy(0), op.x(0)], [op.dx(0)])
    else:
        op.set_sparse(0, op.x(1), op.dy(0))


@family.differentiates("GatherByKey")
def gather_by_key(op: Forward) -> None:
    """Partition(keys, dY) -> (keys, dX) of each input: the gradient is partitioned by the same keys."""
    gradient = op.g_output[0]
    sparse = isinstance(gradient, SparseGradient)
    parts = []
    for index in range(1, len(op.inputs)):
        name = op.x(index)
        blobs = [f"{name}_grad_indices", f"{name}_grad_values"] if sparse else [f"{name}_grad"]
        parts += [f"_{blobs[0]}_keys", *blobs]
        if sparse:
            op.set_sparse(index, *blobs)
        else:
            op.dx(index)
    values = gradient if isinstance(gradient, SparseGradient) else [op.dy(0)]
    op.emit("Partition", [op.x(0), *values], parts, pack_first_input=0)


@family.differentiates("EnsureDense")
def ensure_dense(op: Forward) -> None:
    """Pass a dense gradient through; SparseToDense(indices, values, X) -> dX of a sparse one."""
    gradient = op.g_output[0]
    if isinstance(gradient, SparseGradient):
        op.emit("SparseToDense", [gradient.indices, gradient.values, op.x(0)], [op.dx(0)])
    else:
        op.set_dense(0, op.dy(0))

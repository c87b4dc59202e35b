"""Appending to datasets: Append, AtomicAppend, and vectors of tensors."""

from __future__ import annotations

import numpy as np

from caffe2_backend.runtime.host.family import HostFamily, HostOp
from caffe2_backend.runtime.host.objects.atomics import HostMutex
from caffe2_backend.runtime.values import Array, HostObject

family = HostFamily("appending to datasets")


class TensorVector(HostObject):
    """A list of tensors."""

    type_name = "std::unique_ptr<std::vector<caffe2::Tensor> >"

    def __init__(self) -> None:
        self.tensors: list[Array] = []


@family.runs("Append")
def append(op: HostOp) -> None:
    """Append(A, B) -> A with the rows of B at the end; where A has no rows, B."""
    with op.updating():
        op.set(0, _joined(op, op.array(0), op.array(1)))


@family.runs("AtomicAppend")
def atomic_append(op: HostOp) -> None:
    """AtomicAppend(mutex, A..., B...) -> A... with the rows of B...: all of them under the mutex."""
    number = (len(op.inputs) - 1) // 2
    if len(op.inputs) != 2 * number + 1 or len(op.outputs) != number:
        raise op.error(f"the operator must have a mutex and two inputs for each output, not {len(op.inputs)} inputs")
    with op.object(0, HostMutex).lock, op.updating():
        joined = [_joined(op, op.array(i + 1), op.array(number + i + 1)) for i in range(number)]
        for i, value in enumerate(joined):
            op.set(i, value)


def _joined(op: HostOp, first: Array, second: Array) -> Array:
    """Return the rows of two tensors; the second one where the first has none."""
    if not second.ndim:
        raise op.error("what is appended must have one dim at least")
    if first.ndim and not len(first):
        return second.copy()
    if first.dtype != second.dtype or first.shape[1:] != second.shape[1:] or first.ndim != second.ndim:
        raise op.error(f"{_describe(second)} cannot be appended to {_describe(first)}")
    return np.concatenate((first, second))


def _describe(array: Array) -> str:
    return f"a tensor of {array.dtype.name} of shape {list(array.shape)}"


@family.runs("CreateTensorVector")
def create_tensor_vector(op: HostOp) -> None:
    """CreateTensorVector() -> vector, empty."""
    op.set(0, TensorVector())


@family.runs("TensorVectorSize")
def tensor_vector_size(op: HostOp) -> None:
    """TensorVectorSize(vector) -> the number of tensors, int32."""
    op.set(0, np.int32(len(op.object(0, TensorVector).tensors)))


@family.runs("ConcatTensorVector")
def concat_tensor_vector(op: HostOp) -> None:
    """ConcatTensorVector(vector) -> the rows of all tensors."""
    tensors = op.object(0, TensorVector).tensors
    if not tensors:
        raise op.error("the vector of tensors is empty")
    for tensor in tensors:
        if not tensor.ndim or tensor.dtype != tensors[0].dtype or tensor.shape[1:] != tensors[0].shape[1:]:
            raise op.error(f"{_describe(tensor)} cannot be concatenated with {_describe(tensors[0])}")
    op.set(0, np.concatenate(tensors))


@family.runs("CollectTensor")
def collect_tensor(op: HostOp) -> None:
    """CollectTensor(vector..., tensor...; num_to_collect) -> vector...: a sample of the tensors of all runs.

    The first ``num_to_collect`` runs are kept; each later run replaces one of them with the probability that makes
    all runs equally likely to be kept (reservoir sampling).
    """
    limit = op.args.integer("num_to_collect", default=-1)
    if limit < 1:
        raise op.error(f"num_to_collect must be 1 at least, not {limit}")
    turn = op.state.setdefault("turn", 0)
    op.state["turn"] = turn + 1
    kept = turn if turn < limit else int(np.random.default_rng(op.frame.draw_seed()).integers(turn + 1))
    if kept >= limit:
        return
    for i in range(len(op.outputs)):
        tensors = op.object(i, TensorVector).tensors
        tensor = op.array(len(op.outputs) + i).copy()
        tensors[kept : kept + 1] = [tensor]  # appended where the sample is not complete

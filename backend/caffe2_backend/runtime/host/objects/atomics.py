"""Mutexes and what they protect, and atomic booleans."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from caffe2_backend.runtime.host.family import HostFamily, HostOp
from caffe2_backend.runtime.values import HostObject

family = HostFamily("atomics")


class HostMutex(HostObject):
    """A lock; operators that are given it run one at a time."""

    type_name = "std::unique_ptr<std::mutex>"
    readers = frozenset({"AtomicIter"})  # a run writes its results at one moment
    maker_type = "CreateMutex"

    def __init__(self) -> None:
        self.lock = threading.Lock()


def mutex_of(op: HostOp, index: int) -> AbstractContextManager[object]:
    """Return the lock of the mutex at an input that may be missing; one that locks nothing if it is."""
    return op.object(index, HostMutex).lock if len(op.inputs) > index else nullcontext()


class AtomicBool(HostObject):
    """A boolean that threads share."""

    type_name = "std::unique_ptr<std::atomic<bool> >"

    def __init__(self) -> None:
        self.value = False


@family.runs("CreateMutex")
def create_mutex(op: HostOp) -> None:
    """CreateMutex() -> mutex."""
    op.set(0, HostMutex())


@family.runs("AtomicFetchAdd", "AtomicFetchAdd64")
def atomic_fetch_add(op: HostOp) -> None:
    """AtomicFetchAdd(mutex, a, b) -> a + b, a: of the first elements, which must be int32 or, for 64, int64."""
    dtype = np.dtype(np.int64 if op.type.endswith("64") else np.int32)
    with op.object(0, HostMutex).lock, op.updating():
        a, b = (op.array(index, dtype) for index in (1, 2))
        if not a.size or not b.size:
            raise op.error("the operands must not be empty")
        before = a.reshape(-1)[:1]
        op.set(0, (before + b.reshape(-1)[:1]).reshape(()))
        op.set(1, before.copy().reshape(()))


@family.runs("CreateAtomicBool")
def create_atomic_bool(op: HostOp) -> None:
    """CreateAtomicBool() -> boolean, false."""
    op.set(0, AtomicBool())


@family.runs("ConditionalSetAtomicBool")
def conditional_set_atomic_bool(op: HostOp) -> None:
    """ConditionalSetAtomicBool(boolean, condition) -> (): set it if the condition is true."""
    boolean = op.object(0, AtomicBool)
    if op.scalar(1, np.bool_):
        boolean.value = True


@family.runs("CheckAtomicBool")
def check_atomic_bool(op: HostOp) -> None:
    """CheckAtomicBool(boolean) -> its value, a tensor of one element."""
    op.set(0, np.array([op.object(0, AtomicBool).value]))

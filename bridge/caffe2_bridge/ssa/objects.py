"""Blobs that hold objects and not tensors: stacks of workspaces, mutexes, counters, queues, readers, indices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from caffe2_bridge.control import CONTROL_TYPES, control_of, is_control
from caffe2_bridge.netdef.views import ArgumentError, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

# Operators whose first output is a new object.
_MAKERS: Final = frozenset({
    "CloneCommonWorld", "CreateAtomicBool", "CreateBlobsQueue", "CreateBlobsQueueDB", "CreateCommonWorld",
    "CreateCounter", "CreateDB", "CreateMap", "CreateMutex", "CreateRebatchingQueue", "CreateScope",
    "CreateTensorVector", "CreateTextFileReader", "CreateTreeCursor", "FileStoreHandlerCreate", "IntIndexCreate",
    "KeyValueToMap", "LongIndexCreate", "RedisStoreHandlerCreate", "StatRegistryCreate", "StringIndexCreate",
    "TimerBegin",
})  # fmt: skip
# Operators that must work in place on an object: a copy of it would be another object.
MUTATORS: Final = frozenset({"DestroyCommonWorld", "Free", "IndexFreeze", "IndexLoad"})
_MAY_HOLD_OBJECTS: Final = _MAKERS | MUTATORS | CONTROL_TYPES
_INDEX_MAKERS: Final = frozenset({"IntIndexCreate", "LongIndexCreate", "StringIndexCreate"})
INDEX_TYPES: Final = _INDEX_MAKERS | {"IndexFreeze", "IndexGet"}  # those that follow_index looks at


def mutated(op_type: str, inputs: Sequence[str], outputs: Sequence[str]) -> list[str]:
    """Return the names of the objects that an operator without bodies changes in place."""
    return [name for name in outputs if name in inputs] if op_type in MUTATORS else []


def follow_index(op: OperatorDef, unfrozen: set[str]) -> list[str]:
    """Return the index in which an ``IndexGet`` may number new keys, though it does not list it as an output.

    ``unfrozen`` holds the indices that the operators before have made and not frozen, and is updated. An index from
    outside of the net is taken for a frozen one.
    """
    if op.type in _INDEX_MAKERS:
        unfrozen.update(op.output)
    elif op.type == "IndexFreeze":
        unfrozen.difference_update(op.input)
    elif op.type == "IndexGet":
        return [name for name in op.input[:1] if name in unfrozen]
    return []


def object_outputs(op: OperatorDef) -> tuple[str, ...]:
    """Return the outputs of an operator that are objects; those of its bodies are not among them."""
    if op.domain:
        return ()
    if op.type in _MAKERS:
        return tuple(op.output[:1])
    if op.type in MUTATORS:
        return tuple(mutated(op.type, op.input, op.output))
    control = control_of(OpView(op, 0)) if is_control(op) else None
    return () if control is None else control.objects


def makes_object(op: OperatorDef) -> bool:
    """Whether all that an operator does is to make a new object: it can run again wherever the object is needed."""
    return op.type in _MAKERS and not op.domain and not op.input and len(op.output) == 1


def final_objects(net: NetDef) -> frozenset[str]:
    """Return the blobs of a net, without those of its bodies, whose last value is an object."""
    if _MAY_HOLD_OBJECTS.isdisjoint([op.type for op in net.op]):
        return frozenset()
    found: dict[str, bool] = {}
    for op in net.op:
        objects = object_outputs(op)
        found.update((name, name in objects) for name in op.output)
    return frozenset(name for name, is_object in found.items() if is_object)


def objects_of(net: NetDef) -> Iterator[str]:
    """Yield the blobs of a net, and of the bodies in it, that hold objects."""
    for op in net.op:
        yield from object_outputs(op)
        control = control_of(OpView(op, 0))
        try:
            bodies = () if control is None else control.bodies.values()
        except ArgumentError:  # the analysis reports it
            continue
        for body in bodies:
            yield from objects_of(body.net)

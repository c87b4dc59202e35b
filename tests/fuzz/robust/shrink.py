"""Make an input smaller that breaks the contract, as long as it breaks it in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from caffe2_bridge.proto.caffe2_pb2 import NetDef, PlanDef
from fuzz.robust.inputs import MAIN, Input

_TYPES: Final[dict[str, type[Message]]] = {"net": NetDef, "onnx": onnx.ModelProto, "plan": PlanDef}


def shrink(found: Input, fails: Callable[[Input], bool], seconds: float) -> Input:
    """The smallest input found in so many seconds for which ``fails`` still holds."""
    deadline = time.monotonic() + seconds
    progress = True
    while progress:
        progress = False
        for smaller in _smaller(found):
            if time.monotonic() > deadline:
                return found
            if smaller.size < found.size and fails(smaller):
                found, progress = smaller, True
                break
    return found


def _smaller(found: Input) -> Iterator[Input]:
    """Inputs that are smaller by a part, the large parts first."""
    for name in sorted(found.files, key=lambda name: -len(found.files[name])):
        rest = {other: data for other, data in found.files.items() if other != name}
        if name != MAIN[found.kind]:
            yield Input(found.kind, rest)
        for data in _smaller_file(found.kind, found.files[name]):
            yield Input(found.kind, {**rest, name: data})


def _smaller_file(kind: str, data: bytes) -> Iterator[bytes]:
    if kind in _TYPES:
        try:
            message = _TYPES[kind].FromString(data)
        except DecodeError:
            pass
        else:
            yield from _smaller_messages(message)
            return
    size = len(data) // 2
    while size:
        for start in range(0, len(data), size):
            yield data[:start] + data[start + size :]
        size //= 2


def _smaller_messages(message: Message) -> Iterator[bytes]:
    """The message without each of its parts, the outermost and the largest first."""
    for holder in _walk(message):
        saved = type(holder)()
        saved.CopyFrom(holder)
        # Their lengths now: what is restored is not what the fields referred to.
        for field, length in [(f, len(value) if f.is_repeated else 1) for f, value in holder.ListFields()]:
            for count in _removals(length):
                for start in range(0, length, count):
                    if field.is_repeated:
                        del getattr(holder, field.name)[start : start + count]
                    else:
                        holder.ClearField(field.name)
                    yield message.SerializePartialToString()
                    holder.CopyFrom(saved)


def _removals(count: int) -> Iterator[int]:
    while count:
        yield count
        count //= 2


def _walk(message: Message) -> Iterator[Message]:
    waiting = [message]
    while waiting:
        found = waiting.pop(0)
        yield found
        for field, value in found.ListFields():
            if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
                waiting.extend(value if field.is_repeated else [value])

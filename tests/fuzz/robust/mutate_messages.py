"""Mutations of protobuf messages, field by field."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

# A field, whichever of protobuf's implementations describes it.
_Field = Any
_INTEGERS: Final = (0, 1, 2, 3, 7, 63, 64, 100, 2**20, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**62, 2**63 - 1)
_FLOATS: Final = (0.0, -0.0, 1.0, 1e-45, 3.4e38, float("inf"), float("-inf"), float("nan"), 0.5)
_NAMES: Final = (
    "", "x", "/proc/none/x", "../../x", "a/b", ".", "..", "a" * 5000, "\x1b[31m", "\n", "\x00", "\u202e", "\u00e9", "'",
    '"', "{", "x:0", "0", "CON", " ", "%s", "a\tb", "{}", "op { " * 50,
)  # fmt: skip
_BYTES: Final = (b"", b"\xff", b"op {", b'op { type: "Relu" ' * 40, b"\x0a\x00", b"x" * 70, b"{" * 200)
_INTEGER_TYPES: Final = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
_WALKED: Final = 4000
_GROWN: Final = 200
_LARGEST: Final = 1 << 20  # bytes
_DEEPEST: Final = 40


def mutate_message(message: Message, draw: random.Random, donors: Sequence[Message] = ()) -> None:
    """Apply one to eight mutations in place. ``donors`` are messages from which parts are copied."""
    for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
        targets = list(_walk(message))
        target = draw.choice(targets)
        kind = draw.randrange(10)
        if kind == 0:
            _transplant(target, draw, [*targets, *(part for donor in donors for part in _walk(donor))])
        elif kind == 1 and _size(message) < _LARGEST:
            _nest(message, target, draw)
        else:
            _mutate_field(target, draw, targets)


def _walk(message: Message) -> Iterator[Message]:
    """The message and all messages in it."""
    waiting = [message]
    for _ in range(_WALKED):
        if not waiting:
            return
        found = waiting.pop()
        yield found
        for field, value in found.ListFields():
            if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE and not _is_map(field):
                waiting.extend(value if field.is_repeated else [value])


def _is_map(field: _Field) -> bool:
    return bool(field.message_type is not None and field.message_type.GetOptions().map_entry)


def _mutate_field(target: Message, draw: random.Random, others: Sequence[Message]) -> None:
    present: list[_Field] = [field for field, _ in target.ListFields()]
    every: list[_Field] = list(target.DESCRIPTOR.fields)
    fields = present if present and draw.random() < 0.8 else every
    fields = [field for field in fields if not _is_map(field)]
    if not fields:
        return
    field = draw.choice(fields)
    if field.is_repeated:
        _mutate_list(getattr(target, field.name), field, draw, others)
    elif draw.random() < 0.25:
        target.ClearField(field.name)
    elif field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        getattr(target, field.name).SetInParent()
    else:
        _assign(target, field, _scalar(field, draw, others))


def _assign(target: Message, field: _Field, value: Any) -> None:
    try:
        setattr(target, field.name, value)
    except (TypeError, ValueError):  # a closed enum has no such number
        target.ClearField(field.name)


def _mutate_list(values: Any, field: _Field, draw: random.Random, others: Sequence[Message]) -> None:
    is_message = field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE
    kind = draw.randrange(6)
    index = draw.randrange(len(values)) if len(values) else 0
    if kind == 0 and len(values):
        del values[index]
    elif kind == 1 and len(values):
        del values[index:]
    elif kind == 2 and len(values):
        copies = draw.choice((1, 1, 3, _GROWN))
        if not is_message or _size(values[index]) * copies < _LARGEST:
            values.extend([values[index]] * copies)
    elif kind == 3 and len(values) > 1:
        other = draw.randrange(len(values))
        kept = list(values)
        kept[index], kept[other] = kept[other], kept[index]
        copied = [_copy(value) for value in kept] if is_message else kept
        del values[:]
        values.extend(copied)
    elif is_message:
        values.add()
    else:
        _set_element(values, index, _scalar(field, draw, others), draw)


def _set_element(values: Any, index: int, value: Any, draw: random.Random) -> None:
    try:
        if len(values) and draw.random() < 0.6:
            values[index] = value
        else:
            values.append(value)
    except (TypeError, ValueError):
        return


def _size(message: Message) -> int:
    return len(message.SerializePartialToString())  # required fields may be missing


def _copy(message: Message) -> Message:
    copied = type(message)()
    copied.CopyFrom(message)
    return copied


def _scalar(field: _Field, draw: random.Random, others: Sequence[Message]) -> Any:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING if field.type == FieldDescriptor.TYPE_BYTES:
            return draw.choice(_BYTES) if draw.random() < 0.6 else _name(draw, others).encode()
        case FieldDescriptor.CPPTYPE_STRING:
            return _name(draw, others)
        case FieldDescriptor.CPPTYPE_BOOL:
            return draw.random() < 0.5
        case FieldDescriptor.CPPTYPE_FLOAT | FieldDescriptor.CPPTYPE_DOUBLE:
            return draw.choice(_FLOATS)
        case FieldDescriptor.CPPTYPE_ENUM:
            return draw.choice([value.number for value in field.enum_type.values])
        case _:
            low, high = _INTEGER_TYPES[field.cpp_type]
            value = draw.choice(_INTEGERS) * draw.choice((1, 1, -1))
            return min(max(value, low), high)


def _name(draw: random.Random, others: Sequence[Message]) -> str:
    """A name that occurs elsewhere, or one that no one would choose."""
    if draw.random() < 0.6:
        for _ in range(8):
            found = [v for f, v in draw.choice(others).ListFields() if f.type == FieldDescriptor.TYPE_STRING]
            names = [n for v in found for n in ([v] if isinstance(v, str) else v) if isinstance(n, str)]
            if names:
                return draw.choice(names)
    return draw.choice(_NAMES)


def _transplant(target: Message, draw: random.Random, parts: Sequence[Message]) -> None:
    """Replace a message by another one of its type."""
    same = [part for part in parts if part.DESCRIPTOR.full_name == target.DESCRIPTOR.full_name and part is not target]
    if same:
        donor = draw.choice(same)
        if _size(donor) < _LARGEST:
            target.CopyFrom(_copy(donor))


def _nest(root: Message, target: Message, draw: random.Random) -> None:
    """Put a copy of the whole message, or of a part, into a field that can hold it, several levels deep."""
    for _ in range(draw.choice((1, 1, 3, _DEEPEST))):
        fields = [f for f in target.DESCRIPTOR.fields if f.message_type is not None and not _is_map(f)]
        if not fields:
            return
        field: _Field = draw.choice(fields)
        wanted = field.message_type.full_name
        donor = root if wanted == root.DESCRIPTOR.full_name else None
        inner = getattr(target, field.name).add() if field.is_repeated else getattr(target, field.name)
        if donor is not None and _size(donor) < _LARGEST // 16:
            inner.CopyFrom(_copy(donor))
        else:
            inner.SetInParent()
        target = inner

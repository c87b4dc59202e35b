"""Interpret the opcodes of a pickle (protocols 0 to 5) that make dicts, lists, tuples, text, numbers and NumPy arrays.

Nothing is imported or called by name: what a pickle may name is in a table (:data:`.values.GLOBALS`), and everything
else is refused by its name. Arrays stay where they lie in the file until they are read.
"""

from __future__ import annotations

import codecs
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, TypeVar

from caffe2_bridge import wire
from caffe2_bridge.bounds import MAX_PICKLE_OPCODES
from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.diagnostics.printable import printable
from caffe2_bridge.files.pickles.values import (
    GLOBALS,
    Global,
    Payload,
    PickledArray,
    PickledDtype,
    decode,
    key_of,
)

T = TypeVar("T")

_READ: Final = "dicts, lists, tuples, text, numbers and NumPy arrays are read, and nothing is run"
_SHORT: Final = 4096  # bytes; longer ones stay in the file
_DIGITS: Final = 100  # of a number, and bytes of one in binary
_LINE: Final = 1 << 16


class _Machine:
    """The state of an interpretation: the stack, the marks on it, and the memo."""

    def __init__(self, span: wire.Span) -> None:
        self._span = span
        self._view = span.view
        self.at = 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> object:
        for _ in range(MAX_PICKLE_OPCODES):
            code = self.take(1)[0]
            if code == ord("."):
                return self.pop()
            step = _STEPS.get(code)
            if step is None:
                raise NetFormatError(f"the pickle has {_REFUSED.get(code, f'opcode 0x{code:02x}')}: {_READ}")
            step(self)
        raise NetFormatError(f"the pickle has more than {MAX_PICKLE_OPCODES:,} opcodes")

    def take(self, count: int) -> memoryview:
        """Read bytes of the file, without a copy."""
        end = self.at + count
        if count < 0 or end > len(self._view):
            raise NetFormatError(f"the pickle is truncated at byte {self.at:,}")
        found, self.at = self._view[self.at : end], end
        return found

    def integer(self, layout: str) -> int:
        (value,) = struct.unpack(layout, self.take(struct.calcsize(layout)))
        return int(value)

    def line(self) -> bytes:
        """Read up to the end of a line."""
        parts: list[bytes] = []
        start = self.at
        while True:
            part = bytes(self._view[start : start + _LINE])
            if not part:
                raise NetFormatError(f"the pickle is truncated at byte {self.at:,}")
            found = part.find(b"\n")
            if found >= 0:
                self.at = start + found + 1
                return b"".join((*parts, part[:found]))
            parts.append(part)
            start += len(part)

    def text(self, count: int) -> object:
        payload = self.data(count)
        return payload if isinstance(payload, Payload) else decode(payload)

    def data(self, count: int) -> bytes | Payload:
        found = self.take(count)
        if count <= _SHORT:
            return bytes(found)
        start = self._span.start + self.at - count
        return Payload(self._span.within(start, start + count))

    def pop(self) -> Any:
        if len(self.stack) <= (self.marks[-1] if self.marks else 0):
            raise self.damaged("takes more than there is")
        return self.stack.pop()

    def top(self, kind: type) -> Any:
        value = self.pop()
        if not isinstance(value, kind):
            raise self.damaged(f"needs a {kind.__name__}")
        self.stack.append(value)
        return value

    def since_mark(self) -> list[Any]:
        if not self.marks:
            raise self.damaged("has no mark")
        start = self.marks.pop()
        found = self.stack[start:]
        del self.stack[start:]
        return found

    def recall(self, index: int) -> None:
        if index not in self.memo:
            raise self.damaged("reads what was not stored")
        self.stack.append(self.memo[index])

    def remember(self, index: int) -> None:
        value = self.pop()
        self.stack.append(value)
        self.memo[index] = value

    def damaged(self, reason: str) -> NetFormatError:
        return NetFormatError(f"the pickle is damaged: its opcode before byte {self.at:,} {reason}")


def read_pickle(span: wire.Span) -> object:
    """Return the value that a pickle describes; its arrays are :class:`PickledArray`, long text is :class:`Payload`.

    Raises NetFormatError, without a source, if the pickle is damaged or describes anything else.
    """
    return _Machine(span).run()


def _push(read: Callable[[_Machine], object]) -> Callable[[_Machine], None]:
    def step(machine: _Machine) -> None:
        machine.stack.append(read(machine))

    return step


def _number(machine: _Machine) -> int:
    return _parsed(machine, lambda text: int(text.removesuffix(b"L")))


def _number_or_flag(machine: _Machine) -> int | bool:
    return _parsed(machine, lambda text: text == b"01" if text in {b"00", b"01"} else int(text))


def _parsed(machine: _Machine, parse: Callable[[bytes], T]) -> T:
    text = machine.line()
    with suppress(ValueError):
        if len(text) <= _DIGITS:
            return parse(text)
    raise machine.damaged("has an invalid number")


def _long(layout: str) -> Callable[[_Machine], int]:
    def read(machine: _Machine) -> int:
        count = machine.integer(layout)
        if count > _DIGITS:
            raise machine.damaged("has an integer of too many digits")
        return int.from_bytes(machine.take(count), "little", signed=True)

    return read


def _quoted(machine: _Machine) -> bytes:
    text = machine.line()
    if len(text) < 2 or text[:1] not in b"'\"" or text[-1] != text[0]:
        raise machine.damaged("has a string without quotes")
    try:
        return codecs.escape_decode(text[1:-1])[0]  # as Python 2 wrote it
    except (ValueError, DeprecationWarning):  # which may be an error
        raise machine.damaged("has a string with an invalid escape") from None


def _escaped(machine: _Machine) -> str:
    try:
        return str(machine.line(), "raw-unicode-escape")
    except UnicodeDecodeError:
        raise machine.damaged("has text with an invalid escape") from None


def _tuple(count: int) -> Callable[[_Machine], tuple[Any, ...]]:
    return lambda machine: tuple([machine.pop() for _ in range(count)][::-1])


def _append(machine: _Machine) -> None:
    value = machine.pop()
    machine.top(list).append(value)


def _appends(machine: _Machine) -> None:
    values = machine.since_mark()
    machine.top(list).extend(values)


def _set_item(machine: _Machine) -> None:
    value, key = machine.pop(), machine.pop()
    machine.top(dict)[key_of(key)] = value


def _set_items(machine: _Machine) -> None:
    items = _dict(machine)
    machine.top(dict).update(items)


def _dict(machine: _Machine) -> dict[Any, Any]:
    values = machine.since_mark()
    if len(values) % 2:
        raise machine.damaged("has a key without a value")
    return {key_of(key): value for key, value in zip(values[::2], values[1::2], strict=True)}


def _pop(machine: _Machine) -> None:
    if machine.marks and machine.marks[-1] == len(machine.stack):
        machine.marks.pop()
    else:
        machine.pop()


def _duplicate(machine: _Machine) -> None:
    machine.stack.append(machine.top(object))


def _version(machine: _Machine) -> None:
    version = machine.take(1)[0]
    if version > 5:
        raise NetFormatError(f"the pickle has protocol {version}; those up to 5 are read")


def _named(machine: _Machine) -> Global:
    return _allowed(f"{decode(machine.line())}.{decode(machine.line())}", "GLOBAL")


def _named_on_stack(machine: _Machine) -> Global:
    name, module = machine.pop(), machine.pop()
    if not isinstance(name, str) or not isinstance(module, str):
        raise machine.damaged("has a name that is not text")
    return _allowed(f"{module}.{name}", "GLOBAL")


def _instance(machine: _Machine) -> Global:
    return _allowed(f"{decode(machine.line())}.{decode(machine.line())}", "INST", {})


def _allowed(name: str, opcode: str, names: Mapping[str, object] = GLOBALS) -> Global:
    if name not in names:
        raise NetFormatError(f"the pickle has {opcode} {printable(name[:200])}: {_READ}")
    return Global(name)


def _reduce(machine: _Machine) -> object:
    args, function = machine.pop(), machine.pop()
    call = GLOBALS[function.name] if isinstance(function, Global) else None
    if call is None or not isinstance(args, tuple):
        raise machine.damaged("calls what is not a function")
    try:
        return call(*args)
    except TypeError:
        raise machine.damaged(f"calls {function.name} with other arguments") from None


def _build(machine: _Machine) -> None:
    state = machine.pop()
    made = machine.top(object)
    if not isinstance(made, PickledArray | PickledDtype):
        raise machine.damaged(f"sets the state of a {type(made).__name__}")
    made.set_state(state)


def _frame(machine: _Machine) -> None:
    machine.take(8)  # its length


_STEPS: Final[Mapping[int, Callable[[_Machine], None]]] = MappingProxyType({
    ord(code): step for code, step in {
        "\x80": _version,
        "\x95": _frame,
        "(": lambda machine: machine.marks.append(len(machine.stack)),
        "0": _pop,
        "1": lambda machine: machine.since_mark().clear(),
        "2": _duplicate,
        "N": _push(lambda _: None),
        "\x88": _push(lambda _: True),
        "\x89": _push(lambda _: False),
        "I": _push(_number_or_flag),
        "L": _push(_number),
        "J": _push(lambda machine: machine.integer("<i")),
        "K": _push(lambda machine: machine.integer("B")),
        "M": _push(lambda machine: machine.integer("<H")),
        "\x8a": _push(_long("B")),
        "\x8b": _push(_long("<I")),
        "F": _push(lambda machine: _parsed(machine, float)),
        "G": _push(lambda machine: struct.unpack(">d", machine.take(8))[0]),
        "S": _push(_quoted),
        "T": _push(lambda machine: machine.data(machine.integer("<i"))),
        "U": _push(lambda machine: machine.data(machine.integer("B"))),
        "B": _push(lambda machine: machine.data(machine.integer("<I"))),
        "C": _push(lambda machine: machine.data(machine.integer("B"))),
        "\x8e": _push(lambda machine: machine.data(machine.integer("<Q"))),
        "\x96": _push(lambda machine: machine.data(machine.integer("<Q"))),
        "V": _push(_escaped),
        "X": _push(lambda machine: machine.text(machine.integer("<I"))),
        "\x8c": _push(lambda machine: machine.text(machine.integer("B"))),
        "\x8d": _push(lambda machine: machine.text(machine.integer("<Q"))),
        "]": _push(lambda _: []),
        "}": _push(lambda _: {}),
        ")": _push(lambda _: ()),
        "l": _push(_Machine.since_mark),
        "d": _push(_dict),
        "t": _push(lambda machine: tuple(machine.since_mark())),
        "\x85": _push(_tuple(1)),
        "\x86": _push(_tuple(2)),
        "\x87": _push(_tuple(3)),
        "a": _append,
        "e": _appends,
        "s": _set_item,
        "u": _set_items,
        "g": lambda machine: machine.recall(_number(machine)),
        "h": lambda machine: machine.recall(machine.integer("B")),
        "j": lambda machine: machine.recall(machine.integer("<I")),
        "p": lambda machine: machine.remember(_number(machine)),
        "q": lambda machine: machine.remember(machine.integer("B")),
        "r": lambda machine: machine.remember(machine.integer("<I")),
        "\x94": lambda machine: machine.remember(len(machine.memo)),
        "c": _push(_named),
        "\x93": _push(_named_on_stack),
        "i": _push(_instance),
        "R": _push(_reduce),
        "b": _build,
    }.items()
})  # fmt: skip
# Opcodes that make anything else.
_REFUSED: Final = {
    ord(code): name for code, name in {
        "o": "OBJ", "P": "PERSID", "Q": "BINPERSID", "\x81": "NEWOBJ", "\x82": "EXT1", "\x83": "EXT2", "\x84": "EXT4",
        "\x8f": "EMPTY_SET", "\x90": "ADDITEMS", "\x91": "FROZENSET", "\x92": "NEWOBJ_EX", "\x97": "NEXT_BUFFER",
        "\x98": "READONLY_BUFFER",
    }.items()
}  # fmt: skip

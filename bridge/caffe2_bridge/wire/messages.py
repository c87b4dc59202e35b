"""Parse protobuf messages completely: required fields are there, and text is nested no deeper than bytes may be."""

from __future__ import annotations

import os
import threading
import warnings
from typing import TypeGuard, TypeVar

from google.protobuf import text_format
from google.protobuf.message import DecodeError, Message

M = TypeVar("M", bound=Message)

# The filters of warnings are those of the process: two threads that changed and restored them would mix them up.
_FILTERING = threading.Lock()
if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(
        before=_FILTERING.acquire, after_in_parent=_FILTERING.release, after_in_child=_FILTERING.release
    )


class TextError(ValueError):
    """Text is not that of a message. ``line`` is 0 if it is not known."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(f"line {line}: {reason}" if line else reason)


def is_message(given: object, name: str) -> TypeGuard[Message]:
    """Whether this is a message of a type of Caffe2's, such as ``NetDef``: of this project's classes, or of others'."""
    return isinstance(given, Message) and type(given).DESCRIPTOR.name == name


def parse_message(kind: type[M], data: bytes) -> M:
    """Parse a serialized message. Raises DecodeError if it is damaged or lacks required fields."""
    message = kind.FromString(data)
    require_fields(message)
    return message


def require_fields(message: Message) -> None:
    """Raise DecodeError if a message lacks required fields, as Caffe2's parsers do: it could not be serialized."""
    if not message.IsInitialized():
        raise DecodeError(f"required field {message.FindInitializationErrors()[0]!r} is missing")  # type: ignore[attr-defined] # the stubs lack it


def parse_text(kind: type[M], text: str | bytes) -> M:
    """Parse the text of a message. Raises TextError."""
    try:
        with _FILTERING, warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # protobuf's decoder of escapes raises them
            message = text_format.Parse(text, kind())
        return parse_message(kind, message.SerializePartialToString())
    except text_format.ParseError as error:
        reason = str(error).replace("caffe2_bridge.proto.", "")
        line = error.GetLine() or 0
        raise TextError(reason.partition(" : ")[2] or reason if line else reason, line) from None
    except RecursionError:
        raise TextError("messages are nested too deeply") from None
    except (ValueError, TypeError, DecodeError) as error:  # what protobuf's parser of text does not foresee
        raise TextError(str(error)) from None

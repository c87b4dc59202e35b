"""Read protobuf text."""

from __future__ import annotations

import re
from typing import Final, TypeVar

from google.protobuf.message import Message

from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.wire.messages import TextError, parse_text

M = TypeVar("M", bound=Message)

# Field names that Caffe2 has since renamed; the field numbers are unchanged.
_RENAMED: Final = {"cuda_gpu_id": "device_id"}
_TOKEN: Final = re.compile(
    rf""" "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' | \#[^\n]* | \b(?P<name>{"|".join(_RENAMED)})\b """,
    re.VERBOSE,
)
_START: Final = re.compile(r"\s*(?:#[^\n]*(?:\n\s*|\Z))*(?:[A-Za-z_]\w*\s*[:{<\[]|\[|\Z)")
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0e-\x1f]")


def looks_like_text(head: bytes) -> bool:
    """Return whether the first bytes of a file may be protobuf text."""
    if _CONTROL.search(head):
        return False
    return _START.match(head.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")) is not None


def decode(data: bytes, source: str) -> str:
    """Decode a text file and replace old field names. Raises NetFormatError if it is not UTF-8."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise NetFormatError(f"line {line} is not UTF-8 text", source) from None
    return _TOKEN.sub(lambda found: _RENAMED.get(found["name"] or "", found[0]), text)


def parse(text: str, kind: type[M], source: str) -> M:
    """Parse protobuf text. Raises NetFormatError with the line."""
    try:
        return parse_text(kind, text)
    except TextError as error:
        raise NetFormatError(f"the file is not the text of a {kind.DESCRIPTOR.name}: {error}", source) from None

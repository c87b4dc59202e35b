"""Blobs in onnxruntime's messages: a session that nets of one structure share has the names of the first of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from caffe2_backend.runtime.sessions.failure_text import NODE_NAME
from caffe2_bridge.diagnostics import RunError

# Nodes are named after the blobs that they compute, which suffixes may follow.
_NAME: Final = re.compile(rf"{NODE_NAME.pattern}|(?<=input: )\S+")


def renamed(error: RunError, names: Mapping[str, str]) -> RunError:
    """Return an error of a session with a net's own names of blobs, by those in the message."""
    if not names:
        return error
    text = _NAME.sub(lambda found: _renamed(found[0], names), str(error))
    made = RunError(text)
    made.operator = error.operator
    return made


def _renamed(text: str, names: Mapping[str, str]) -> str:
    """Return a text whose longest beginning that is a blob, or ends before a slash, is replaced."""
    end = len(text)
    while end > 0:
        if text[:end] in names:
            return names[text[:end]] + text[end:]
        end = text.rfind("/", 0, end)
    return text

"""Lack of memory, as an error that says for what."""

from __future__ import annotations

import re
from typing import Final

from caffe2_bridge.diagnostics import RunError

_NODE: Final = re.compile(r"Name:'([^']*)'")
_BYTES: Final = re.compile(r"Failed to allocate memory for requested buffer of size (\d+)")


def lack_of_memory(what: str, error: Exception | str = "") -> RunError:
    """Make the error, for the caller to raise; ``error`` says more, and may be empty."""
    return RunError(f"{what}: there is not enough memory{f': {error}' if str(error) else ''}")


def lack_in_session(text: str) -> RunError | None:
    """Return the error if onnxruntime says of a run that it cannot allocate memory; None if it says something else."""
    size = _BYTES.search(text)
    if size is None and "bad_alloc" not in text:
        return None
    node = _NODE.search(text)
    wanted = f"{int(size[1]):,} bytes for a buffer" if size else ""
    return lack_of_memory("onnxruntime" if node is None else f"onnxruntime, node {node[1]!r}", wanted)

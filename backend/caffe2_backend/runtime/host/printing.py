"""Print and Summarize: tensors, and statistics of them, as text, in the log or in a file."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

import numpy as np

from caffe2_backend.runtime.host.family import HostFamily, HostOp
from caffe2_backend.runtime.values import Array, HostObject, text_bytes
from caffe2_bridge.regular_file import require_replaceable

family = HostFamily("printing")
logger = logging.getLogger(__name__)

# The elements that are printed where the operator does not set a limit.
_LIMIT: Final = 1000
_TYPE_NAMES: Final = {
    "float32": "float", "float64": "double", "int32": "int", "int64": "long int", "uint8": "unsigned char",
    "bool": "bool", "object": "std::basic_string<char>",
}  # fmt: skip


@family.runs("Print")
def print_tensor(op: HostOp) -> None:
    """Print(X; to_file=0, limit=0, every_n=1) -> (): the element type, the dims and the first elements.

    The text goes to the log of this module (level INFO), or to the file ``<root folder>/<blob>.log``, which the first
    run of a prepared net empties. Runs 0, ``every_n``, 2 ``every_n`` ... print.
    """
    turn = op.state.setdefault("turn", 0)
    op.state["turn"] = turn + 1
    if turn % max(op.args.integer("every_n", default=1), 1):
        return
    name, value = op.inputs[0], op.value(0)
    if isinstance(value, HostObject | bytes):
        kind = value.type_name if isinstance(value, HostObject) else _TYPE_NAMES["object"]
        logger.info("Blob of type: %s", kind)
        return
    _put(op, _describe(op, name, op.array(0), op.args.integer("limit", default=0) or _LIMIT), "log", is_first=not turn)


@family.runs("Summarize")
def summarize(op: HostOp) -> None:
    """Summarize(X; to_file=0) -> Y: minimum, maximum, mean and standard deviation of a tensor of float, float [4].

    They also go to the log of this module, or to the file ``<root folder>/<blob>.summary``, as those of Print.
    """
    x = op.array(0, np.float32).reshape(-1)
    if not x.size:
        raise op.error(f"blob {op.inputs[0]!r} must not be empty")
    mean = x.mean(dtype=np.float64)
    deviation = np.sqrt(np.square(x - mean).sum() / max(x.size - 1, 1))
    found = np.array([x.min(), x.max(), mean, deviation], np.float32)
    is_first = not op.state.setdefault("turn", 0)
    op.state["turn"] += 1
    _put(op, " ".join(map(_element, found)), "summary", is_first=is_first)
    if op.outputs:
        op.set(0, found)


def _put(op: HostOp, text: str, extension: str, *, is_first: bool) -> None:
    """Write a line to the file of the first input, if ``to_file`` is set, or else to the log."""
    if not op.args.flag("to_file", default=False):
        logger.info("%s", text)
        return
    path = _text_file(op, op.inputs[0], extension)
    try:
        require_replaceable(path)
        with path.open("w" if is_first else "a", encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError as error:
        raise op.error(f"the file {path} cannot be written: {error.strerror}") from None


def _text_file(op: HostOp, name: str, extension: str) -> Path:
    """Return the file of a blob in the root folder. Raises RunError for a name that leaves the folder."""
    path = Path(op.frame.files.path(f"{name.lstrip('/')}.{extension}"))  # as in Caffe2, which joins both with a slash
    if "\0" in name or not path.resolve().is_relative_to(Path(op.frame.files.root).resolve()):
        raise op.error(f"the file of blob {name!r} must be in the root folder")
    return path


def _describe(op: HostOp, name: str, array: Array, limit: int) -> str:
    """Return the text of a tensor. Raises RunError for an element type that Caffe2 does not print."""
    type_name = _TYPE_NAMES.get(array.dtype.name)
    if type_name is None:
        raise op.error(f"blob {name!r} holds {array.dtype.name}, which Print does not support")
    dims = "".join(f"{dim}," for dim in array.shape)
    elements = ",".join(map(_element, array.reshape(-1)[:limit]))
    return f"Tensor {name} of type {type_name}. Dims: ({dims}): {elements}"


def _element(value: object) -> str:
    """Return an element as C++ prints it: six significant digits."""
    if isinstance(value, np.floating | float):
        return f"{float(value):g}"
    if isinstance(value, str | bytes):
        return text_bytes(value).decode(errors="replace")
    return str(int(value)) if isinstance(value, np.bool_ | np.integer) else str(value)

"""Writing manifests: TOML to edit by hand, JSON, or a Parquet table."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from caffe2_bridge.diagnostics import NetFormatError, OptionError
from caffe2_bridge.storage import AnyPath, is_url, read_file
from caffe2_fleet.models import parquet_manifest
from caffe2_fleet.models.discovery import text_of
from caffe2_fleet.task import ModelTask
from caffe2_frontend.interop.files.onnx_files import replacing

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_HEAD: Final = """\
# Models of a fleet: caffe2-bridge batch {name} -o DIR. docs/fleets.md describes the keys.
# [defaults]
# opset = 20

"""


def write_manifest(tasks: Sequence[ModelTask], path: AnyPath) -> None:
    """Write a manifest, in the form of its suffix; paths in it are relative to its folder.

    Raises OptionError if the suffix is none of a manifest or a name is not valid text, RunError if it is .parquet and
    PyArrow is not installed, OSError.
    """
    entries = [manifest_entry(task, path.parent) for task in tasks]
    if path.suffix == ".parquet":
        parquet_manifest.write(entries, path)
        return
    if path.suffix == ".toml":
        text = _HEAD.format(name=path.name) + toml_text(entries)
    elif path.suffix == ".json":
        text = json.dumps({"model": entries}, indent=1)
    else:
        raise OptionError(f"a manifest must be a .toml, .json or .parquet file, not {path.name}")
    with replacing(path) as file:
        file.write(_encoded(text))


def append_models(tasks: Sequence[ModelTask], path: AnyPath) -> None:
    """Add models at the end of a TOML manifest, whose text stays as it was edited.

    Raises NetFormatError if it is not text, OptionError, OSError.
    """
    try:
        text = read_file(path).decode().rstrip("\n")
    except UnicodeDecodeError as error:
        raise NetFormatError(f"the manifest cannot be read: {error}", str(path)) from None
    added = toml_text([manifest_entry(task, path.parent) for task in tasks])
    with replacing(path) as file:
        file.write(_encoded(f"{text}\n\n{added}"))


def manifest_entry(task: ModelTask, folder: AnyPath) -> dict[str, Any]:
    """Return a task as an entry of a manifest in a folder: the keys that are known."""
    entry: dict[str, Any] = {"path": _relative(task.path, folder), "name": task.name}
    if task.init:
        entry["init"] = _relative(task.init, folder)
    if task.inputs:
        entry["inputs"] = {name: spelled(spec) for name, spec in task.inputs.items()}
    entry |= {name: getattr(task, name) for name in ("opset", "rtol", "atol") if getattr(task, name) is not None}
    if task.outputs:
        entry["outputs"] = list(task.outputs)
    entry |= {name: getattr(task, name) for name in ("recurrent", "owner") if getattr(task, name)}
    return {key: value for key, value in entry.items() if key != "name" or value != entry["path"]}


def toml_text(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return entries as ``[[model]]`` tables."""
    return "\n".join("\n".join(["[[model]]", *_pairs(entry), ""]) for entry in entries)


def _pairs(entry: Mapping[str, Any]) -> Iterator[str]:
    for key, value in entry.items():
        yield f"{_key(key)} = {_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return f"{{ {', '.join(_pairs(value))} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return repr(value)  # integers and floats are written in TOML as in Python


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _text(text: str) -> str:
    """Return a basic string: JSON's escapes are TOML's, but for the character DEL, which TOML escapes, too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        bad = text[max(error.start - 30, 0) : error.end + 10]
        raise OptionError(f"the name of a model is not valid text, so that no manifest can hold it: {bad!r}") from None


def _relative(path: str, folder: AnyPath) -> str:
    """Return a path as a manifest in a folder names it; a URL elsewhere, or a path in a remote manifest, unchanged."""
    if not isinstance(folder, Path):
        return path.removeprefix(text_of(folder).rstrip("/") + "/")
    if is_url(path):
        return path
    absolute, home = Path(path).resolve(), folder.resolve()
    return Path(os.path.relpath(absolute, home)).as_posix()


def spelled(spec: Sequence[Any]) -> str:
    """Return a description of an input as on the command line: ``float32[N,3]@0.05,128``."""
    dtype, shape, *quantized = spec
    dims = "" if shape is None else f"[{','.join('?' if dim is None else str(dim) for dim in shape)}]"
    scale = f"@{quantized[0][0]!r},{quantized[0][1]}" if quantized else ""
    return f"{dtype or ''}{dims}{scale}"

"""Manifests: the models of a fleet and what is known of each, in TOML, JSON or Parquet: see docs/fleets.md."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, Final

from caffe2_backend.input_text import parse_input
from caffe2_bridge.diagnostics import BridgeError, NetFormatError, OptionError
from caffe2_bridge.storage import AnyPath, is_url, read_file
from caffe2_fleet.models import parquet_manifest
from caffe2_fleet.models.discovery import text_of
from caffe2_fleet.task import ModelTask
from caffe2_frontend import ExportOptions
from caffe2_validation.options import DEFAULTS

SUFFIXES: Final = frozenset({".toml", ".json", ".parquet"})
_DEFAULTS, _MODELS = "defaults", "model"
_SHARED: Final = frozenset({"opset", "rtol", "atol", "recurrent", "owner"})
_KEYS: Final = _SHARED | {"name", "path", "init", "inputs", "outputs", "owner"}


def read_manifest(path: AnyPath) -> list[ModelTask]:
    """Read the tasks of a manifest, in its order. Paths in it are relative to its folder.

    Raises:
        NetFormatError: the file is not TOML, JSON or Parquet, by its suffix.
        OptionError: an entry is not as docs/fleets.md says; the message names the file and the entry.
        RunError: the file is Parquet, and PyArrow is not installed.
        OSError: the file cannot be read.
    """
    data = _parse(path)
    unknown = sorted(data.keys() - {_DEFAULTS, _MODELS})
    if unknown:
        raise OptionError(f"{path}: {unknown[0]!r} is unknown: a manifest has [{_DEFAULTS}] and [[{_MODELS}]]")
    defaults = _table(data.get(_DEFAULTS, {}), f"{path}: [{_DEFAULTS}]", _SHARED)
    entries = data.get(_MODELS, [])
    if not isinstance(entries, list) or not entries:
        raise OptionError(f"{path}: the manifest has no models: add a [[{_MODELS}]] with a path")
    tasks = []
    for index, entry in enumerate(entries, 1):
        where = f"{path}: {_MODELS} {index}"
        tasks.append(_task(defaults | _table(entry, where, _KEYS), path.parent, where))
    for name, count in Counter(task.name for task in tasks).items():
        if count > 1:
            raise OptionError(f"{path}: two models are named {name!r}: give one of them another name")
    return tasks


def _parse(path: AnyPath) -> dict[str, Any]:
    if path.suffix == ".parquet":
        return parquet_manifest.read(path)
    try:
        text = read_file(path).decode()
        data = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except ValueError as error:
        raise NetFormatError(f"the manifest cannot be read: {error}", str(path)) from None
    if not isinstance(data, dict):
        raise OptionError(f"{path}: a manifest must be an object with the key {_MODELS!r}")
    return data


def _table(entry: Any, where: str, keys: frozenset[str]) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise OptionError(f"{where}: must be a table")
    unknown = sorted(entry.keys() - keys)
    if unknown:
        raise OptionError(f"{where}: key {unknown[0]!r} is unknown: the keys are {', '.join(sorted(keys))}")
    return entry


def _task(entry: Mapping[str, Any], folder: AnyPath, where: str) -> ModelTask:
    path, init = _text(entry, "path", where), _text(entry, "init", where)
    if not path:
        raise OptionError(f"{where}: key 'path' is missing")
    task = ModelTask(
        name=_safe_name(_text(entry, "name", where) or path, where),
        path=_under(folder, path, where),
        init=_under(folder, init, where) if init else "",
        inputs=_inputs(entry.get("inputs", {}), where),
        outputs=_texts(entry.get("outputs", ()), where),
        opset=entry.get("opset"),
        rtol=entry.get("rtol"),
        atol=entry.get("atol"),
        recurrent=_text(entry, "recurrent", where),
        owner=_text(entry, "owner", where),
    )
    try:  # so that a wrong value ends the batch before it starts
        options = replace(task, outputs=()).options(DEFAULTS)
        ExportOptions(inputs=options.described, opset=task.opset, recurrent=options.recurrent)
    except (BridgeError, TypeError) as error:
        raise OptionError(f"{where}: {error}") from None
    return task


def _under(folder: AnyPath, path: str, where: str) -> str:
    """Return a path of a manifest in a folder, or a URL."""
    if is_url(path):
        return path
    try:
        return text_of(folder / path)
    except ValueError:
        raise OptionError(f"{where}: {path!r} must be in the folder of the manifest, which is remote") from None


def _text(entry: Mapping[str, Any], key: str, where: str) -> str:
    value = entry.get(key, "")
    if not isinstance(value, str):
        raise OptionError(f"{where}: {key} must be a text, not {value!r}")
    return value


def _texts(values: Any, where: str) -> tuple[str, ...]:
    if not isinstance(values, list | tuple) or not all(isinstance(value, str) for value in values):
        raise OptionError(f"{where}: outputs must be a list of names, not {values!r}")
    return tuple(values)


def _inputs(values: Any, where: str) -> dict[str, Any]:
    """Return inputs given as ``NAME = "DTYPE[DIM,...]"``, spelled as on the command line."""
    if not isinstance(values, dict):
        raise OptionError(f"{where}: inputs must be a table of DTYPE[DIM,...] by name")
    found = {}
    for name, value in values.items():
        spec = parse_input(f"{name}={value}")
        if spec is None:
            raise OptionError(
                f"{where}: input {name!r} is {value!r}: expected DTYPE[DIM,...], such as float32[N,3,224,224]"
            )
        found[name] = spec[1]
    return found


def _safe_name(name: str, where: str) -> str:
    """Return a name that is a path under any folder; of a path outside of the manifest's folder its last part."""
    pure = PurePosixPath(name)
    if pure.is_absolute() or ".." in pure.parts:
        pure = PurePosixPath(pure.name)
    if pure.name in ("", ".."):
        raise OptionError(f"{where}: {name!r} cannot name results: give the model a name")
    return str(pure)

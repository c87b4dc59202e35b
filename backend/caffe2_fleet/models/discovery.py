"""Models under a folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from caffe2_bridge import wire
from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.files import pairing
from caffe2_bridge.files.detect import detect
from caffe2_bridge.storage import AnyPath, walk
from caffe2_fleet.models.unnamed_init_nets import unnamed_init_nets

_SUFFIXES: Final = frozenset({".pb", ".pbtxt", ".prototxt", ".txt", ".model", ".minidb", ".lmdb", ".mdb"})
_TEXT: Final = re.compile(r"\s*(#[^\n]*\s+)*(name|op|network|type|arg|external_input|device_option)\s*[:{]")
_PREDICT: Final = "predict_net"
_HEAD: Final = 4096


@dataclass(frozen=True)
class Skipped:
    """A file that is not a model of its own.

    Attributes:
        path: under the folder.
        reason: why.
        is_part: whether it is part of a model: its init net, or the same net in text.
    """

    path: str
    reason: str
    is_part: bool = False


@dataclass(frozen=True)
class Discovery:
    """The models under a folder, and the files that are not among them, each in order."""

    models: tuple[AnyPath, ...] = ()
    skipped: tuple[Skipped, ...] = ()


def discover(folder: AnyPath, excluded: AnyPath | None = None) -> Discovery:
    """Find the models under a folder, but not under ``excluded``. Links are not followed.

    A folder with one net, next to its init net or the same net in the other format, is a model; otherwise every file
    with a net, a plan or a predictor database is one, unless it is the init net of another by its name or contents. So
    is every .onnx file, and every file that is named as a predict net, even if it cannot be read.
    """
    models: list[AnyPath] = []
    skipped: list[Skipped] = []
    for place, files in _walk(folder, excluded):
        found, others = _models_in(files)
        nets = [path for path in found if path.suffix != ".onnx"]
        if len(nets) == 1 and nets[0].stem == _PREDICT:
            models.append(place)
        else:
            models += nets
        models += [path for path in found if path.suffix == ".onnx"]
        skipped += [Skipped(name_of(path, folder), reason, is_part) for path, reason, is_part in others]
    return Discovery(tuple(models), tuple(skipped))


def _walk(folder: AnyPath, excluded: AnyPath | None) -> Iterator[tuple[AnyPath, Sequence[AnyPath]]]:
    """Yield a folder with its files, and those below it."""
    if not isinstance(folder, Path):
        inside = None if excluded is None else f"{excluded}/"
        yield from ((f, files) for f, files in walk(folder) if inside is None or not f"{f}/".startswith(inside))
        return
    without = None if excluded is None else excluded.resolve()
    for place, names, files in os.walk(folder):
        names[:] = sorted(name for name in names if Path(place, name).resolve() != without)
        yield Path(place), [Path(place, name) for name in sorted(files)]


def name_of(path: AnyPath, folder: AnyPath) -> str:
    """Return the path of a file or folder under a folder; the name of the folder itself."""
    if path == folder:
        return path.resolve().name
    if isinstance(path, Path) and isinstance(folder, Path):
        return str(path.relative_to(folder))
    return str(path).removeprefix(str(folder).rstrip("/") + "/")


def text_of(path: AnyPath) -> str:
    """Return a path as text, or its URL, which may hold credentials."""
    return str(path) if isinstance(path, Path) else path.url.text


def find_models(folder: AnyPath) -> list[AnyPath]:
    """Return the models of :func:`discover`."""
    return list(discover(folder).models)


def files_of(model: AnyPath) -> list[AnyPath]:
    """Return the files of a model file: itself, and its init net."""
    init = None
    with suppress(NetFormatError, OSError):
        init = _named_init_net(model)
        if init is None and isinstance(model, Path):
            init = unnamed_init_nets(pairing.files_in(model.parent)).get(model)
    return [model] if init is None else [model, init]


def _named_init_net(model: AnyPath) -> AnyPath | None:
    """Return the init net that a model file's name leads to. Raises NetFormatError and OSError."""
    return None if model.suffix == ".onnx" else pairing.init_net_beside(model)


def _models_in(files: Sequence[AnyPath]) -> tuple[list[AnyPath], list[tuple[AnyPath, str, bool]]]:
    """Return the model files among the files of one folder, and why the others are none: are they part of a model?"""
    reasons = {path: why for path in files if (why := _why_skipped(path))}
    parts: dict[AnyPath, str] = {}
    binary = {path.stem: path for path in files if path.suffix == ".pb" and path not in reasons}
    for path in files:
        if path.suffix == ".pbtxt" and path not in reasons and path.stem in binary:
            parts[path] = f"the same net as {binary[path.stem].name}, in text"
    models = [path for path in files if path not in reasons and path not in parts]
    for model, init in unnamed_init_nets([path for path in models if path.suffix != ".onnx"]).items():
        parts[init] = f"the init net of {model.name}"
    models = [path for path in models if path not in parts]
    for init, owner in _init_nets(models, [path for path in (*reasons, *parts) if pairing.is_init_net(path)]):
        if owner:
            parts[init] = f"the init net of {owner}"
        else:
            reasons[init] = "an init net without a predict net beside it"
    others = reasons | parts
    return models, [(path, others[path], path in parts) for path in files if path in others]


def _init_nets(models: Sequence[AnyPath], nets: Sequence[AnyPath]) -> Iterator[tuple[AnyPath, str]]:
    """Yield the names of the models of init nets, empty for one that belongs to none."""
    owners: dict[AnyPath, AnyPath] = {}
    for model in models:
        with suppress(NetFormatError, OSError):
            if (init := _named_init_net(model)) is not None:
                owners[init] = model
    names = {owner.stem: owner.name for owner in owners.values()}
    stems = {file.stem: owner for file, owner in owners.items()}
    for net in nets:
        owner = owners.get(net) or stems.get(net.stem)  # the pair of a net in both formats has two init nets
        yield net, names[owner.stem] if owner else ""


def _why_skipped(path: AnyPath) -> str:
    """Return why a file is not a model, by its name and its content; empty if it is one."""
    if path.suffix == ".onnx":
        return ""
    if path.suffix not in _SUFFIXES:
        return f"the suffix {path.suffix!r} is not that of a model" if path.suffix else "the name has no suffix"
    if pairing.is_init_net(path):
        return "an init net"
    return "" if path.stem == _PREDICT else _why_not_a_net(path)


def _why_not_a_net(path: AnyPath) -> str:
    try:
        span = wire.Buffer.of_file(os.fspath(path)).span()
        detect(span)
    except (OSError, NetFormatError) as error:
        return str(getattr(error, "strerror", None) or error)
    head = span.view[:_HEAD].tobytes()
    if path.suffix != ".txt" or b"\0" in head or _TEXT.match(head.decode("utf-8", "replace")):
        return ""
    return "the text is not a net"

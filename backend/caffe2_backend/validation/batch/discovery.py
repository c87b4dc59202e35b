"""Models under a folder."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.files import pairing
from caffe2_bridge.files.detect import detect
from caffe2_bridge.wire import read as wire

_SUFFIXES: Final = frozenset({".pb", ".pbtxt", ".prototxt", ".txt", ".model", ".minidb", ".lmdb", ".mdb"})
_TEXT: Final = re.compile(r"\s*(#[^\n]*\s+)*(name|op|network|type|arg|external_input|device_option)\s*[:{]")
_PREDICT: Final = "predict_net"
_HEAD: Final = 4096


def find_models(folder: Path) -> list[Path]:
    """Find the models under a folder, in order. Links are not followed.

    A folder with one net, next to its init net or the same net in the other format, is a model; otherwise every file
    with a net, a plan or a predictor database is one. So is every .onnx file, and every file that is named as a predict
    net, even if it cannot be read.
    """
    found: list[Path] = []
    for place, names, files in os.walk(folder):
        names.sort()
        nets = _nets([Path(place, name) for name in sorted(files)])
        if len(nets) == 1 and nets[0].stem == _PREDICT:
            found.append(Path(place))
        else:
            found += nets
        found += [Path(place, name) for name in sorted(files) if name.endswith(".onnx")]
    return found


def files_of(model: Path) -> list[Path]:
    """The files of a model file: itself, and its init net."""
    try:
        init = None if model.suffix == ".onnx" else pairing.init_net_beside(model)
    except NetFormatError:
        init = None
    return [model] if init is None else [model, init]


def _nets(files: list[Path]) -> list[Path]:
    """Files with nets, init nets excepted; of a net in both formats, the binary file."""
    nets = [path for path in files if _is_net(path)]
    binary = {path.stem for path in nets if path.suffix == ".pb"}
    return [path for path in nets if path.suffix != ".pbtxt" or path.stem not in binary]


def _is_net(path: Path) -> bool:
    if path.suffix not in _SUFFIXES or pairing.is_init_net(path):
        return False
    if path.stem == _PREDICT:
        return True
    try:
        span = wire.Buffer.of_file(os.fspath(path)).span()
        detect(span)
    except (OSError, NetFormatError):
        return False
    head = span.view[:_HEAD].tobytes()
    return path.suffix != ".txt" or b"\0" in head or _TEXT.match(head.decode("utf-8", "replace")) is not None

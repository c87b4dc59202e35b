"""Weights that a net lacks, found by the contents of the files in its folder.

The loader pairs files by their names. The init net of a net whose weights are missing nevertheless may have any other
name: it is the file that writes all of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from caffe2_backend.validation.inputs.generate import missing_weights
from caffe2_bridge.diagnostics import NetFormatError, RunError
from caffe2_bridge.files.loader import load_init_net
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.model import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.storage import AnyPath, source_path

_MOST_DOWNLOADS: Final = 20  # of a remote folder


def find_weights(model: Model, *, required: bool = True) -> tuple[Model, list[str]]:
    """The model with an init net from its folder, if it has none, lacks weights, and one file has all of them.

    Args:
        model: the net.
        required: whether an ambiguous choice is an error; else no file is used, and a note names them.

    Returns:
        The model, unchanged where no file has the weights; and a note that names the file.

    Raises RunError if several files have them and the choice is ``required``.
    """
    missing = missing_weights(model)
    if not missing or not model.source or model.init.parameters or model.init.rest:
        return model, []
    path = source_path(model.source)
    if path is None:
        return model, []
    found = [(file, init) for file, init in _init_nets(path) if _writes(init, missing)]
    if not found:
        return model, []
    if len(found) > 1:
        names = ", ".join(file.name for file, _ in found)
        reason = f"several files have the weights of {path.name}: {names}; name one with --init"
        if required:
            raise RunError(reason)
        return model, [reason]
    ((file, init),) = found
    whole = Model.of(model.predict_net, _needed(init, model.predict_net), model.source)
    return whole, [f"weights are read from {file.name}, which lies in the folder of {path.name}"]


def _init_nets(path: AnyPath) -> list[tuple[AnyPath, InitNet]]:
    """The nets in the folder of a file, itself excepted, read as init nets; of one in both formats the binary one."""
    found: dict[str, tuple[AnyPath, InitNet]] = {}
    folder = path if path.is_dir() else path.parent
    try:
        files: list[AnyPath] = sorted(folder.iterdir())
    except OSError:  # no folder, or one that cannot be listed
        return []
    for file in files if isinstance(folder, Path) or len(files) <= _MOST_DOWNLOADS else ():
        if not file.is_file() or file == path or file.stem in found:
            continue
        try:
            found[file.stem] = file, load_init_net(file)
        except NetFormatError:
            continue
    return list(found.values())


def _needed(init: InitNet, net: NetDef) -> InitNet | NetDef:
    """The operators on which the net depends: the init net of a training also opens databases."""
    if not init.rest:
        return init
    wanted = {name for op in net.op for name in op.input}.union(net.external_input)
    kept = []
    for op in reversed(init.net.op):
        if not wanted.isdisjoint(op.output):
            kept.append(op)
            wanted.update(op.input)
    return NetDef(name=init.net.name, op=reversed(kept))


def _writes(init: InitNet, names: tuple[str, ...]) -> bool:
    """Whether an init net writes all of the blobs, and reads none that it does not write."""
    written = {*init.parameters, *(name for op in init.rest for name in op.outputs)}
    return written.issuperset(names) and not init.findings

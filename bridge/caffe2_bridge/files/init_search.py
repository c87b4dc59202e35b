"""Find the parameters that a net lacks by the contents of the files in its folder.

Files are paired by their names (:mod:`.pairing`). Where no name matches, the init net is the one file, of any name,
that fills all parameters of the net: a net, a database of tensors, or a pickled checkpoint.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from caffe2_bridge.diagnostics import Diagnostic, Location, NetFormatError, Severity
from caffe2_bridge.files import pairing
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.init.parameter_blobs import parameter_blobs
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.operators.parameters import is_parameter_operand, is_weight_operand
from caffe2_bridge.storage import AnyPath, source_path

FOUND: Final = "init-net-found"
_MOST_FILES: Final = 200
_MOST_DOWNLOADS: Final = 20  # of a remote folder

Read = Callable[[AnyPath], InitNet]


def with_init_net_found(model: Model, read: Read) -> Model:
    """Return the model with the init net that its folder holds under another name, and a note that names the file.

    The model itself is returned if it has an init net, lacks no parameters, or not exactly one file fills them all.
    """
    found = init_nets_by_content(model, read)
    return with_init_net(model, *found[0]) if len(found) == 1 else model


def with_init_net(model: Model, file: AnyPath, init: InitNet) -> Model:
    """Return the model with an init net that was found by its contents, and a note that names its file."""
    reason = f"weights are read from {file.name}, which lies in the folder of {Path(model.source).name}"
    here = Location(model.predict_net.name or "net")
    note = Diagnostic("init-net-found", reason, here, Severity.NOTE, "to read others: --init FILE, or load(path, init)")
    whole = Model.of(model.predict_net, init, model.source).without_unneeded()
    return dataclasses.replace(whole, init=dataclasses.replace(whole.init, findings=(*whole.init.findings, note)))


def init_nets_by_content(model: Model, read: Read) -> list[tuple[AnyPath, InitNet]]:
    """Return the files in the folder of a net without an init net that fill all parameters which it lacks."""
    path = source_path(model.source) if model.source else None
    if path is None or model.init.parameters or model.init.rest or model.init.placeholders:
        return []
    missing = missing_parameters(model)
    fitting: dict[str, tuple[AnyPath, InitNet]] = {}  # of a net in both formats the binary one
    for file, init in _init_nets(path, read) if missing else ():
        if fills(init, missing):
            fitting.setdefault(file.stem, (file, init))
    return list(fitting.values())


def missing_parameters(model: Model) -> list[str]:
    """Return the inputs that are parameters: those that certainly are, or else those that most often are."""
    net = NetView(model.predict_net)
    return parameter_blobs(net, model.inputs, is_weight_operand) or parameter_blobs(
        net, model.inputs, is_parameter_operand
    )


def _init_nets(path: AnyPath, read: Read) -> Iterator[tuple[AnyPath, InitNet]]:
    """Yield files beside a file that can be read as init nets; the text of one that was read in binary is left out."""
    try:
        files = pairing.files_in(path.parent)
    except OSError:  # no folder, or one that cannot be listed
        return
    if len(files) > (_MOST_FILES if isinstance(path, Path) else _MOST_DOWNLOADS):
        return
    binary = set()  # .npz files are where inputs and outputs are kept: weights in one are given as the init net
    for file in files:
        if file == path or file.suffix == ".npz" or (file.suffix == ".pbtxt" and file.stem in binary):
            continue
        try:
            init = read(file)
        except NetFormatError:
            continue
        if file.suffix == ".pb":
            binary.add(file.stem)
        yield file, init


def fills(init: InitNet, names: list[str]) -> bool:
    """Return whether an init net writes all of the blobs, and reads none that it does not write."""
    written = {*init.parameters, *(name for op in init.rest for name in op.outputs)}
    return written.issuperset(names) and not any(finding.severity is Severity.ERROR for finding in init.findings)

"""Init nets whose names do not say whose they are: they fill all parameters that a net of their folder lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from caffe2_bridge import load, load_init_net
from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.files import init_search, pairing
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.model import Model
from caffe2_bridge.storage import AnyPath

_MOST_FILES: Final = 200  # as where a single net is loaded


def unnamed_init_nets(files: Sequence[AnyPath]) -> Mapping[AnyPath, AnyPath]:
    """Return the init net of each net that has one among the files of a local folder, by contents.

    Nets that have an init net by its name are not looked at. Each file is read once.
    """
    local = [file for file in files if isinstance(file, Path)]
    if not 1 < len(local) <= _MOST_FILES:
        return {}
    try:
        return _paired(tuple((file, file.stat().st_mtime_ns, file.stat().st_size) for file in local))
    except OSError:  # a file that is gone
        return {}


@lru_cache(maxsize=64)
def _paired(files: tuple[tuple[Path, int, int], ...]) -> Mapping[AnyPath, AnyPath]:
    inits: dict[Path, InitNet] = {}
    others: list[Path] = []
    for file, _, _ in files:
        init = _init_net(file)
        if init is None:
            others.append(file)
        elif not any(file.stem == known.stem for known in inits):  # of a net in both formats the first
            inits[file] = init
    found: dict[AnyPath, AnyPath] = {}
    for net in others if inits else ():
        missing = _missing(net, next(iter(inits)))
        fitting = [file for file, init in inits.items() if init_search.fills(init, missing)] if missing else []
        if len(fitting) == 1:
            found[net] = fitting[0]
    return MappingProxyType(found)


def _init_net(file: Path) -> InitNet | None:
    """Return the init net in a file; None if it is none, or a name pairs it."""
    try:
        init = load_init_net(file)
        named = pairing.is_init_net(file)
    except (BridgeError, OSError):
        return None
    return init if not named and init.parameters and init_search.fills(init, []) else None


def _missing(file: Path, init: Path) -> list[str]:
    """Return the parameters that a net lacks; none if it has an init net by its name, or is no net."""
    try:
        if pairing.init_net_beside(file) is not None:
            return []
        net = load(file, init).predict_net  # with any init net, so that none is looked for
        return init_search.missing_parameters(Model(net, source=str(file)))
    except (BridgeError, OSError):
        return []

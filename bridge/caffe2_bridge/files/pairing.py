"""Pair the predict nets and init nets of a folder by their names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from caffe2_bridge.diagnostics import NetFormatError

# The ending of a predict net's name, and the endings of its init net's name, the closest first.
_ENDINGS: Final = (
    ("predict_net", ("init_net", "init")),
    ("pred_net", ("init_net", "init")),
    ("predict", ("init", "init_net")),
    ("pred", ("init", "init_net")),
    ("net", ("init_net", "init")),
)
_INIT: Final = re.compile(r"(^|[_.-])init([_.-]?net)?$")
_PREDICT: Final = re.compile(r"(^|[_.-])(predict|pred)([_.-]?net)?$")
_SUFFIXES: Final = (".pb", ".pbtxt")  # the first is preferred if a net is stored in both


def is_init_net(path: Path) -> bool:
    """Return whether a file is named like an init net."""
    return _INIT.search(path.stem) is not None


def init_net_beside(predict: Path) -> Path | None:
    """Find the init net of a predict net by its name; None if there is none.

    Names are matched as ``predict_net``/``init_net``, ``X_predict_net``/``X_init_net``, ``X_predict``/``X_init``,
    ``X_net``/``X_init_net`` and ``model``/``model_init``. Raises NetFormatError if several files match.
    """
    if is_init_net(predict):
        return None
    files = _files(predict.parent)
    for stem in _init_stems(predict.stem):
        found = [file for file in files if file.stem == stem and file != predict]
        if found:
            return _one_of(found, predict.suffix, f"several init nets match {predict.name}")
    return None


def _init_stems(stem: str) -> list[str]:
    """Return the possible names of the init net of a predict net, without suffixes, the closest first."""
    stems = []
    for ending, others in _ENDINGS:
        if stem == ending or (stem.endswith(ending) and stem[-len(ending) - 1] in "_.-"):
            stems += [stem[: -len(ending)] + other for other in others]
    return list(dict.fromkeys([*stems, f"{stem}_init_net", f"{stem}_init"]))


def predict_net_in(folder: Path) -> Path | None:
    """Find the predict net of a folder by name; None if no name identifies it.

    In order of preference: a file named ``predict_net``, one named ``model``, one whose name ends like a predict net's,
    and one that has an init net. Raises NetFormatError if several match equally.
    """
    files = [file for file in _files(folder) if not _INIT.search(file.stem)]
    tiers = (
        [file for file in files if file.stem == "predict_net"],
        [file for file in files if file.stem == "model" and file.suffix in _SUFFIXES],
        [file for file in files if _PREDICT.search(file.stem)],
        [file for file in files if file.suffix in _SUFFIXES and init_net_beside(file)],
    )
    for tier in tiers:
        if tier:
            return _one_of(tier, "", f"folder {folder.name} has several predict nets")
    return None


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))


def _one_of(files: Sequence[Path], preferred: str, problem: str) -> Path:
    """Return the only file; of several with one stem, that with the preferred suffix, else the binary one."""
    if len(files) == 1:
        return files[0]
    if len({file.stem for file in files}) == 1:
        for suffix in (preferred, *_SUFFIXES):
            for file in files:
                if file.suffix == suffix:
                    return file
    raise NetFormatError(f"{problem}: {', '.join(file.name for file in files)}", str(files[0].parent))

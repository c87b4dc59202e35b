"""Which files of a folder belong together, by their names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from caffe2_bridge.diagnostics import NetFormatError

# What a predict net's name ends with, and what its init net's name ends with instead. In order: the closest first.
_ENDINGS: Final = (
    ("predict_net", ("init_net", "init")),
    ("pred_net", ("init_net", "init")),
    ("predict", ("init", "init_net")),
    ("pred", ("init", "init_net")),
    ("net", ("init_net", "init")),
)
_INIT: Final = re.compile(r"(^|[_.-])init([_.-]?net)?$")
_PREDICT: Final = re.compile(r"(^|[_.-])(predict|pred)([_.-]?net)?$")
_SUFFIXES: Final = (".pb", ".pbtxt")  # a net that is there in both forms is read in the first


def is_init_net(path: Path) -> bool:
    """Whether a file's name says that it holds an init net."""
    return _INIT.search(path.stem) is not None


def init_net_beside(predict: Path) -> Path | None:
    """The init net that belongs to a predict net by its name, None where there is none.

    Names are matched as ``predict_net``/``init_net``, ``X_predict_net``/``X_init_net``, ``X_predict``/``X_init``,
    ``X_net``/``X_init_net`` and ``model``/``model_init``. Raises NetFormatError where several files claim to be it.
    """
    if is_init_net(predict):
        return None
    files = _files(predict.parent)
    for stem in _init_stems(predict.stem):
        found = [file for file in files if file.stem == stem and file != predict]
        if found:
            return _one_of(found, predict.suffix, f"several init nets belong to {predict.name}")
    return None


def _init_stems(stem: str) -> list[str]:
    stems = []
    for ending, others in _ENDINGS:
        if stem == ending or (stem.endswith(ending) and stem[-len(ending) - 1] in "_.-"):
            stems += [stem[: -len(ending)] + other for other in others]
    return list(dict.fromkeys([*stems, f"{stem}_init_net", f"{stem}_init"]))


def predict_net_in(folder: Path) -> Path | None:
    """The predict net of a folder, None where no name says which it is.

    In order: a file called ``predict_net``, one called ``model``, one that is named as a predict net, one that has an
    init net beside it. Raises NetFormatError where several are as good.
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
            return _one_of(tier, "", f"several predict nets are in the folder {folder.name}")
    return None


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))


def _one_of(files: Sequence[Path], preferred: str, problem: str) -> Path:
    """The one file; of several with one stem, that with the preferred suffix, else the binary one."""
    if len(files) == 1:
        return files[0]
    if len({file.stem for file in files}) == 1:
        for suffix in (preferred, *_SUFFIXES):
            for file in files:
                if file.suffix == suffix:
                    return file
    raise NetFormatError(f"{problem}: {', '.join(file.name for file in files)}", str(files[0].parent))

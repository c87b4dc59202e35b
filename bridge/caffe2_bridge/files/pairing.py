"""Pair the predict nets and init nets of a folder by their names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.storage import AnyPath, NotListableError, RemotePath, journal

P = TypeVar("P", Path, RemotePath, AnyPath)

# How a predict net is called, and how its init net is called in the same place of the name, the closest first. The
# longer names are found anywhere in a file's name, the others between separators.
_PARTS: Final = (
    (re.compile(r"predict(?P<sep>[_.-]?)net", re.IGNORECASE), ("init{sep}net", "init")),
    (re.compile(r"pred(?P<sep>[_.-]?)net", re.IGNORECASE), ("init{sep}net", "init")),
    (re.compile(r"exec(?P<sep>[_.-]?)net", re.IGNORECASE), ("init{sep}net", "init")),
    (re.compile(r"(?<![^_.-])(predict|pred|exec)(?P<sep>)(?![^_.-])", re.IGNORECASE), ("init", "init_net")),
    (re.compile(r"(?<=[a-z0-9])(Predict|Pred|Exec)(?P<sep>)(?![a-z])"), ("Init", "InitNet")),
    (re.compile(r"(?<![^_.-])(?P<sep>)net$", re.IGNORECASE), ("init_net", "init")),
)
_INIT: Final = re.compile(
    r"init[_.-]?net(?![a-z])|(^|[_.-])init($|[_.-])|(?-i:(?<=[a-z0-9])Init(?![a-z]))", re.IGNORECASE
)
_PREDICT: Final = re.compile(
    r"(predict|pred|exec)[_.-]?net|(^|[_.-])(predict|pred|exec)$|(?-i:(?<=[a-z0-9])(Predict|Pred|Exec)(?![a-z]))",
    re.IGNORECASE,
)
_SUFFIXES: Final = (".pb", ".pbtxt")  # the first is preferred if a net is stored in both


def is_init_net(path: AnyPath) -> bool:
    """Return whether a file is named like an init net."""
    return _INIT.search(path.stem) is not None and _PREDICT.search(path.stem) is None


def init_net_beside(predict: P) -> P | None:
    """Find the init net of a predict net by its name; None if there is none.

    Names are matched as ``predict_net``/``init_net``, ``X_predict_net``/``X_init_net``, ``X_predict``/``X_init``,
    ``X_exec_net``/``X_init_net``, ``XPredict``/``XInit``, ``X_net``/``X_init_net`` and ``model``/``model_init``, with
    text before and after, whether in capitals or not. If no name matches, a folder that holds one net and one init net
    pairs them. Raises NetFormatError if several files match.
    """
    if is_init_net(predict):
        return None
    stems = init_net_stems(predict.stem)
    files = files_in(predict.parent, stems)
    for stem in stems:
        found = [file for file in files if file.stem.lower() == stem.lower() and file != predict]
        if found:
            return _one_of(found, predict.suffix, f"several init nets match {predict.name}")
    return _only_init_net(predict, files)


def init_net_stems(stem: str) -> list[str]:
    """Return the possible names of the init net of a predict net, without suffixes, the closest first."""
    matches = ((pattern.search(stem), others) for pattern, others in _PARTS)
    match, others = next(((match, others) for match, others in matches if match is not None), (None, ()))
    stems = []
    if match is not None:
        before, after = stem[: match.start()], stem[match.end() :]
        stems = [before + other.format(sep=match["sep"]) + after for other in others]
    return [*stems, f"{stem}_init_net", f"{stem}_init"]


def _only_init_net(predict: P, files: Sequence[P]) -> P | None:
    """Return the init net of a folder whose nets are this one and one init net, by the suffixes and names of files."""
    nets = [file for file in files if file.suffix in _SUFFIXES]
    init = [file for file in nets if is_init_net(file)]
    others = {file.stem for file in nets if not is_init_net(file)}
    if others != {predict.stem} or len({file.stem for file in init}) != 1:
        return None
    return _one_of(init, predict.suffix, f"several init nets match {predict.name}")


def predict_net_in(folder: P) -> P | None:
    """Find the predict net of a folder by name; None if no name identifies it.

    In order of preference: a file named ``predict_net``, one named ``model``, one whose name contains a predict net's,
    and one that has an init net. Raises NetFormatError if several match equally.
    """
    files = [file for file in files_in(folder, ("predict_net", "model")) if not is_init_net(file)]
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


def files_in(folder: P, stems: Sequence[str] = ()) -> list[P]:
    """Return the files of a folder, without hidden ones, such as those that are being written.

    Those of a save that a killed process began to rename are there already. Of a remote folder that cannot be listed,
    those with the given names without suffixes. Raises OSError.
    """
    pending: Iterable[str] = journal.pending(folder) if isinstance(folder, Path) else ()
    saved = {folder / name for name in pending}
    try:
        return sorted(saved | {file for file in folder.iterdir() if file.is_file() and not file.name.startswith(".")})
    except NotListableError:
        named = [folder / f"{stem}{suffix}" for stem in stems for suffix in _SUFFIXES]
        if not named:
            raise
        return [file for file in named if file.is_file()]


def _one_of(files: Sequence[P], preferred: str, problem: str) -> P:
    """Return the only file; of several with one stem, that with the preferred suffix, else the binary one."""
    if len(files) == 1:
        return files[0]
    if len({file.stem for file in files}) == 1:
        for suffix in (preferred, *_SUFFIXES):
            for file in files:
                if file.suffix == suffix:
                    return file
    names = ", ".join(file.name for file in files)
    raise NetFormatError(f"{problem}: {names}; give the path of one", str(files[0].parent))

"""Settings of the cache, from the environment."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Final

from caffe2_bridge.diagnostics import OptionError

FOLDER_VARIABLE: Final = "CAFFE2_BRIDGE_CACHE"
SIZE_VARIABLE: Final = "CAFFE2_BRIDGE_CACHE_SIZE"
_DEFAULT_SIZE: Final = "50GB"
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_UNITS: Final = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def cache_folder() -> Path:
    """Return the folder of downloads: in $CAFFE2_BRIDGE_CACHE, else where the system keeps the user's caches."""
    return user_cache("storage")


def user_cache(name: str) -> Path:
    """Return a folder of the user's caches, which need not exist. Raises RuntimeError if there is no home folder."""
    named = os.environ.get(FOLDER_VARIABLE)
    return (Path(named) if named else _user_caches() / "caffe2-bridge") / name


def private_folder(*parts: str) -> Path:
    """Make the folder of downloads, which other users cannot read, or one in it. Raises OSError."""
    cache_folder().parent.mkdir(parents=True, exist_ok=True)
    cache_folder().mkdir(mode=0o700, exist_ok=True)
    folder = cache_folder().joinpath(*parts)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _user_caches() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    named = os.environ.get("XDG_CACHE_HOME", "")
    return Path(named) if Path(named).is_absolute() else Path.home() / ".cache"


def cache_limit() -> int:
    """Return the bytes that downloads may take: $CAFFE2_BRIDGE_CACHE_SIZE, such as ``500MB``; by default 50 GB.

    Raises OptionError if it is not a size.
    """
    text = os.environ.get(SIZE_VARIABLE) or _DEFAULT_SIZE
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise OptionError(f"{SIZE_VARIABLE} must be a size such as 500MB or 20GB, not {text!r}")
    return int(float(found[1]) * _UNITS[found[2].upper()])

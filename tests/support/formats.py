"""Formats of models that can be written here: plyvel, which LevelDB databases take, has no wheels for every Python."""

from __future__ import annotations

from importlib.util import find_spec

from caffe2_bridge.files import FORMATS


def writable_formats() -> tuple[str, ...]:
    """Return the formats that models are written in of which the packages are installed."""
    packages = {"lmdb": "lmdb", "leveldb": "plyvel"}
    return tuple(name for name in FORMATS if name not in packages or find_spec(packages[name]))

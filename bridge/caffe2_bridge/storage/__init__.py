"""Files by URL: object stores, web servers and members of zip archives, wherever a path is taken.

:func:`locate` turns a path or a URL into a :class:`pathlib.Path` or a :class:`RemotePath`, which has the methods of a
path; ``os.fspath`` of it is a local copy of the current version, which is downloaded once (:mod:`.cache.fetch`).
:func:`published` gives the local path to write, and uploads what was written there.
"""

from caffe2_bridge.storage.contents import read_file
from caffe2_bridge.storage.errors import NotListableError, StorageError, StorageNotFoundError, mask
from caffe2_bridge.storage.locate import Location, locate, source_path, walk
from caffe2_bridge.storage.publish import AnyPath, published
from caffe2_bridge.storage.remote_path import RemotePath
from caffe2_bridge.storage.urls import is_url

__all__ = [
    "AnyPath",
    "Location",
    "NotListableError",
    "RemotePath",
    "StorageError",
    "StorageNotFoundError",
    "is_url",
    "locate",
    "mask",
    "published",
    "read_file",
    "source_path",
    "walk",
]

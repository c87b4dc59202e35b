"""The store of a URL."""

from __future__ import annotations

from caffe2_bridge.storage.fsspec_store import FsspecStore
from caffe2_bridge.storage.http_store import HttpStore
from caffe2_bridge.storage.store import Store
from caffe2_bridge.storage.urls import HTTP, ZIP, Url
from caffe2_bridge.storage.zip_store import ZipStore


def store_of(url: Url) -> Store:
    """The store that a URL is in."""
    if url.scheme == ZIP:
        return ZipStore(store_of(url.archive) if isinstance(url.archive, Url) else None)
    return HttpStore() if url.scheme in HTTP else FsspecStore()

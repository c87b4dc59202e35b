"""The store of a URL."""

from __future__ import annotations

from caffe2_bridge.storage.store import Store
from caffe2_bridge.storage.urls import HTTP, ZIP, Url


def store_of(url: Url) -> Store:
    """Return the store that a URL is in; what it needs is imported now, since most programs read local files alone."""
    if url.scheme == ZIP:
        from caffe2_bridge.storage.stores.zip_store import ZipStore

        return ZipStore(store_of(url.archive) if isinstance(url.archive, Url) else None)
    if url.scheme in HTTP:
        from caffe2_bridge.storage.stores.http_store import HttpStore

        return HttpStore()
    from caffe2_bridge.storage.stores.fsspec_store import FsspecStore

    return FsspecStore()

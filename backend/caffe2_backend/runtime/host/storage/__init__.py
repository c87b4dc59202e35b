"""Operators that read and write databases."""

from typing import Final

from caffe2_backend.runtime.host.storage import database_input, loading, queue_database, readers, saving

FAMILIES: Final = (database_input.family, loading.family, queue_database.family, readers.family, saving.family)

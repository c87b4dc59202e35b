"""Operators of datasets: tensors that are the columns of a tree of records."""

from typing import Final

from caffe2_backend.runtime.host.datasets import appending, cursors, records

FAMILIES: Final = (appending.family, cursors.family, records.family)

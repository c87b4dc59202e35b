"""Operators of datasets: tensors that are the columns of a tree of records."""

from typing import Final

from caffe2_backend.runtime.host.datasets import appending, cursors, packed_records, reservoirs

FAMILIES: Final = (appending.family, reservoirs.family, cursors.family, packed_records.family)

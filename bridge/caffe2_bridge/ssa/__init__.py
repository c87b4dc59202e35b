"""Versions of blobs: which write of a name an operator reads, and nets in SSA form."""

from caffe2_bridge.ssa.dataflow import check_dataflow
from caffe2_bridge.ssa.emit import INSERTED, forget_copies, former_indices, numbered
from caffe2_bridge.ssa.rewrite import rename_in_place, ssa_rewrite
from caffe2_bridge.ssa.versions import (
    BlobVersions,
    Ssa,
    VersionedBlob,
    get_consumer_map,
    get_external_blob_names,
    get_op_ids_in_path,
    get_output_producers,
    get_producer_map,
    get_ssa,
    get_undefined_blobs,
)

__all__ = [
    "INSERTED",
    "BlobVersions",
    "Ssa",
    "VersionedBlob",
    "check_dataflow",
    "forget_copies",
    "former_indices",
    "get_consumer_map",
    "get_external_blob_names",
    "get_op_ids_in_path",
    "get_output_producers",
    "get_producer_map",
    "get_ssa",
    "get_undefined_blobs",
    "numbered",
    "rename_in_place",
    "ssa_rewrite",
]

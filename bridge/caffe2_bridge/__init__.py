"""Caffe2 nets: reading, writing, looking at and changing them, without Caffe2."""

from caffe2_bridge import proto
from caffe2_bridge.diagnostics import (
    BridgeError,
    ConversionError,
    Diagnostic,
    Location,
    NetFormatError,
    RunError,
    Severity,
)
from caffe2_bridge.files import load, load_init_net, save
from caffe2_bridge.init_net import InitNet
from caffe2_bridge.model import Model, read_init
from caffe2_bridge.params import Parameter
from caffe2_bridge.ssa import (
    check_dataflow,
    get_consumer_map,
    get_external_blob_names,
    get_op_ids_in_path,
    get_output_producers,
    get_producer_map,
    get_ssa,
    get_undefined_blobs,
    ssa_rewrite,
)

__all__ = [
    "BridgeError",
    "ConversionError",
    "Diagnostic",
    "InitNet",
    "Location",
    "Model",
    "NetFormatError",
    "Parameter",
    "RunError",
    "Severity",
    "check_dataflow",
    "get_consumer_map",
    "get_external_blob_names",
    "get_op_ids_in_path",
    "get_output_producers",
    "get_producer_map",
    "get_ssa",
    "get_undefined_blobs",
    "load",
    "load_init_net",
    "proto",
    "read_init",
    "save",
    "ssa_rewrite",
]

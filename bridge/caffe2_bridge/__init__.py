"""Read, write, analyze and edit Caffe2 nets without Caffe2.

Errors are subclasses of :class:`BridgeError`: ``NetFormatError`` for files and protobufs, ``ConversionError`` for nets,
which holds the diagnostics, and ``RunError``.
"""

import warnings
from collections.abc import Callable
from typing import Any

from caffe2_bridge import proto
from caffe2_bridge.devices import (
    CostModel,
    Device,
    Placement,
    Profile,
    ProfiledCosts,
    as_device,
    assign_device_option,
    cuda_operators,
    follow_inputs,
    fuse_copies,
    has_cuda_version,
    infer_device_type,
    infer_output_devices,
    insert_copies,
    place,
    propagate_status,
)
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
from caffe2_bridge.graph_edit import (
    Int8Tensor,
    construct_init_net_from_params,
    export_mobile,
    forward_only,
    fuse_alias_placeholder,
    get_params_from_init_net,
    get_sub_graph_external_input_output,
    group_norm_replace_aten_with_caffe2,
    identify_reshape_sub_graph,
    remove_dead_end_ops,
    remove_reshape_for_fc,
    rename_op_input,
    rename_op_output,
)
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.model import Model, read_init
from caffe2_bridge.netdef.parameters import Parameter
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
    "CostModel",
    "Device",
    "Diagnostic",
    "InitNet",
    "Int8Tensor",
    "Location",
    "Model",
    "NetFormatError",
    "Parameter",
    "Placement",
    "Profile",
    "ProfiledCosts",
    "RunError",
    "Severity",
    "as_device",
    "assign_device_option",
    "check_dataflow",
    "construct_init_net_from_params",
    "cuda_operators",
    "export_mobile",
    "follow_inputs",
    "forward_only",
    "fuse_alias_placeholder",
    "fuse_copies",
    "get_consumer_map",
    "get_external_blob_names",
    "get_op_ids_in_path",
    "get_output_producers",
    "get_params_from_init_net",
    "get_producer_map",
    "get_ssa",
    "get_sub_graph_external_input_output",
    "get_undefined_blobs",
    "group_norm_replace_aten_with_caffe2",
    "has_cuda_version",
    "identify_reshape_sub_graph",
    "infer_device_type",
    "infer_output_devices",
    "insert_copies",
    "load",
    "load_init_net",
    "place",
    "propagate_status",
    "proto",
    "read_init",
    "remove_dead_end_ops",
    "remove_reshape_for_fc",
    "rename_op_input",
    "rename_op_output",
    "save",
    "ssa_rewrite",
]


def __getattr__(name: str) -> Callable[..., Any]:
    """Return a function by its deprecated name: ``export`` is :func:`export_mobile`."""
    if name == "export":
        message = "caffe2_bridge.export is deprecated: use caffe2_bridge.export_mobile"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return export_mobile
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Edit nets: names, dead code, subgraphs, parameters. Arguments stay unchanged; results are new nets."""

from caffe2_bridge.graph_edit.detection import group_norm_replace_aten_with_caffe2
from caffe2_bridge.graph_edit.forward_only import forward_only
from caffe2_bridge.graph_edit.parameters import construct_init_net_from_params, export_mobile, get_params_from_init_net
from caffe2_bridge.graph_edit.prune import get_sub_graph_external_input_output, remove_dead_end_ops
from caffe2_bridge.graph_edit.rename_blobs import fuse_alias_placeholder, rename_op_input, rename_op_output
from caffe2_bridge.graph_edit.reshape import identify_reshape_sub_graph, remove_reshape_for_fc
from caffe2_bridge.netdef.parameters import Int8Tensor

__all__ = [
    "Int8Tensor",
    "construct_init_net_from_params",
    "export_mobile",
    "forward_only",
    "fuse_alias_placeholder",
    "get_params_from_init_net",
    "get_sub_graph_external_input_output",
    "group_norm_replace_aten_with_caffe2",
    "identify_reshape_sub_graph",
    "remove_dead_end_ops",
    "remove_reshape_for_fc",
    "rename_op_input",
    "rename_op_output",
]

"""ATen operators whose parameters are all inputs: what PyTorch's exporter writes for operators that it does not know.

Then constants stand for the parameters that are not tensors. The table has the parameters of such operators in the
order of the ATen schema (torch 1.9.1), tensors marked by a star. An operator whose overloads differ in which of so
many parameters are tensors is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from caffe2_bridge.netdef.parameters import Array
from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.proto.caffe2_pb2 import Argument, OperatorDef
from caffe2_frontend.lowering.op import Op

_NAMES: Final[Mapping[str, str]] = {
    "input* grid* interpolation_mode padding_mode align_corners": "grid_sampler grid_sampler_2d grid_sampler_3d",
    "input* normalized_shape weight* bias* eps cudnn_enable": "layer_norm",
    "input* num_groups weight* bias* eps cudnn_enabled": "group_norm",
    "input* p train": "dropout feature_dropout alpha_dropout",
    "input* weight* bias* running_mean* running_var* training momentum eps cudnn_enabled": "batch_norm",
    "input* weight* bias* running_mean* running_var* use_input_stats momentum eps cudnn_enabled": "instance_norm",
    "self* batch1* batch2* beta alpha": "baddbmm addbmm",
    "self* beta threshold": "softplus",
    "self* chunks dim": "chunk unsafe_chunk",
    "self* diagonal": "tril triu",
    "self* dim": "glu squeeze unbind unsqueeze",
    "self* dim descending": "argsort sort",
    "self* dim dtype": "cumsum log_softmax softmax",
    "self* dim half_to_float": "_log_softmax _softmax",
    "self* dim index": "select",
    "self* dim index*": "index_select",
    "self* dim index* sparse_grad": "gather",
    "self* dim index* src*": "scatter_add",
    "self* dim keepdim": "all amax amin any argmax argmin frobenius_norm logsumexp max min",
    "self* dim keepdim dtype": "mean prod sum",
    "self* dim start end step": "slice",
    "self* dim start length": "narrow narrow_copy",
    "self* dim unbiased keepdim": "std std_mean var var_mean",
    "self* dim0 dim1": "transpose",
    "self* dimension size step": "unfold",
    "self* dims": "flip permute",
    "self* dtype layout device pin_memory memory_format": "ones_like zeros_like",
    "self* fill_value dtype layout device pin_memory memory_format": "full_like",
    "self* k dim largest sorted": "topk",
    "self* kernel_size stride padding ceil_mode count_include_pad": "avg_pool1d",
    "self* kernel_size stride padding ceil_mode count_include_pad divisor_override": "avg_pool2d avg_pool3d",
    "self* kernel_size stride padding dilation ceil_mode": "max_pool1d max_pool2d max_pool3d max_pool1d_with_indices "
    "max_pool2d_with_indices max_pool3d_with_indices",
    "self* mat1* mat2* beta alpha": "addmm",
    "self* mat* vec* beta alpha": "addmv",
    "self* max": "clamp_max",
    "self* min": "clamp_min",
    "self* min max": "clamp",
    "self* min_val max_val": "hardtanh",
    "self* negative_slope": "leaky_relu",
    "self* num_classes": "one_hot",
    "self* other* alpha": "add rsub sub subtract",
    "self* output_size": "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d "
    "adaptive_max_pool2d adaptive_max_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d",
    "self* output_size align_corners scales": "upsample_linear1d",
    "self* output_size align_corners scales_h scales_w": "upsample_bicubic2d upsample_bilinear2d",
    "self* output_size scales": "upsample_nearest1d",
    "self* output_size scales_h scales_w": "upsample_nearest2d",
    "self* p": "norm",
    "self* p dim keepdim": "norm",
    "self* pad value": "constant_pad_nd",
    "self* padding": "reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d replication_pad3d",
    "self* repeats": "repeat",
    "self* shape": "reshape",
    "self* shifts dims": "roll",
    "self* size": "view _unsafe_view",
    "self* size implicit": "expand",
    "self* split_size dim": "split unsafe_split",
    "self* split_sizes dim": "split_with_sizes unsafe_split_with_sizes",
    "self* start_dim end_dim": "flatten",
    "self* tensor1* tensor2* value": "addcdiv addcmul",
    "self* threshold value": "threshold",
    "self* unbiased": "std std_mean var var_mean",
    "self* upscale_factor": "pixel_shuffle",
    "weight* indices* padding_idx scale_grad_by_freq sparse": "embedding",
    "x1* x2* dim eps": "cosine_similarity",
    "x1* x2* p eps keepdim": "pairwise_distance",
}
# By name and number of parameters.
_PARAMETERS: Final[Mapping[tuple[str, int], Sequence[str]]] = {
    (name, len(parameters.split())): parameters.split()
    for parameters, names in _NAMES.items()
    for name in names.split()
}
# These parameters may be tensors, too.
_OVERLOADED: Final = frozenset({"clamp", "clamp_max", "clamp_min"})
_ADDED: Final = frozenset({"operator", "overload_name", "outputs", "type"})


def with_arguments(op: Op, name: str) -> OpView:
    """Return the operator with constant inputs as arguments; the operator itself if it has any, or tensors alone."""
    inputs = op.view.inputs
    parameters = _PARAMETERS.get((name, len(inputs)))
    if parameters is None or not _ADDED.issuperset(op.args):
        return op.view
    result = OperatorDef(type=op.type, name=op.view.name, output=op.view.outputs)
    result.arg.extend(op.view.proto.arg)
    for index, parameter in enumerate(parameters):
        if parameter.endswith("*"):
            result.input.append(inputs[index])
        elif inputs[index]:
            contents = op.known(op.input(index))
            if contents is None and name in _OVERLOADED:
                return op.view
            if contents is None:
                op.unsupported(
                    f"input {index}, {parameter!r} of ATen operator {name!r}, must be a constant",
                    hint=f"make it an argument: {parameter}=...",
                    code="invalid-operands",
                )
            result.arg.append(_argument(parameter, contents))
    while result.input and not result.input[-1]:
        del result.input[-1]
    return OpView(result, op.view.index)


def _argument(name: str, contents: Array) -> Argument:
    """Return an argument of integers or floats: one of a scalar, a list of a vector."""
    integral = contents.dtype.kind in "iub"
    if contents.ndim == 0:
        return Argument(name=name, i=int(contents)) if integral else Argument(name=name, f=float(contents))
    values = np.asarray(contents).reshape(-1).tolist()
    return Argument(name=name, ints=values) if integral else Argument(name=name, floats=values)

"""Caffe2's rewrites of nets: engines for NNPACK, and the fusions of Conv with Relu and SpatialBN."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np

from caffe2_backend.runtime.calls.blob_workspace import Workspace
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.proto.caffe2_pb2 import Argument, NetDef, OperatorDef
from caffe2_bridge.ssa import ssa_rewrite as rewrite_to_ssa
from caffe2_compat.extension.values.blobs import text
from caffe2_compat.workspace.named_workspaces import current

__all__ = [
    "apply_transform",
    "apply_transform_if_faster",
    "memonger_compute_blob_recycling_for_dag",
    "memonger_optimize_inference_net",
    "run_transform",
    "run_workspace_transform",
    "ssa_rewrite",
    "transform_addNNPACK",
    "transform_exists",
    "transform_fuseConvBN",
    "transform_fuseNNPACKConvRelu",
    "workspace_transform_exists",
]

_NNPACK: Final = "NNPACK"
_CONV_WITH_BIAS: Final = 3


def transform_exists(name: Any) -> bool:
    """Whether a rewrite of a net alone has this name."""
    return text(name) in _ON_NETS


def workspace_transform_exists(name: Any) -> bool:
    """Whether a rewrite of a net and its parameters in the current workspace has this name."""
    return text(name) in _ON_WORKSPACES


def run_transform(name: Any, net_def: bytes) -> bytes:
    """Rewrite a net. Raises RunError if the rewrite does not exist."""
    return _run(_ON_NETS, name, net_def)


def run_workspace_transform(name: Any, net_def: bytes) -> bytes:
    """Rewrite a net and its parameters in the current workspace. Raises RunError if the rewrite does not exist."""
    return _run(_ON_WORKSPACES, name, net_def)


def apply_transform(key: Any, net_def: bytes) -> bytes:
    """Rewrite a net. Raises RunError if the rewrite does not exist."""
    return _run(_REGISTERED, key, net_def)


def apply_transform_if_faster(
    key: Any, net_def: bytes, init_net: bytes, warmup_runs: int, main_runs: int, improvement_threshold: float
) -> bytes:
    """Rewrite a net; return the result if it is faster by a factor, the net itself otherwise."""
    rewritten = apply_transform(key, net_def)
    init = NetDef.FromString(init_net)
    before, after = (_seconds(NetDef.FromString(net), init, warmup_runs, main_runs) for net in (net_def, rewritten))
    return rewritten if before / after > improvement_threshold else net_def


def _seconds(net: NetDef, init: NetDef, warmup_runs: int, main_runs: int) -> float:
    workspace = Workspace(parent=current())
    workspace.run_net_once(init)
    name = workspace.create_net(net)
    workspace.run_net(name, warmup_runs)
    start = time.perf_counter()
    workspace.run_net(name, main_runs)
    return time.perf_counter() - start


def transform_addNNPACK(net_def: bytes) -> bytes:  # noqa: N802 - Caffe2's name
    """Choose the engine NNPACK for convolutions that it has kernels for. It makes no difference here."""
    return _run(_ON_NETS, "AddNNPACK", net_def)


def transform_fuseNNPACKConvRelu(net_def: bytes) -> bytes:  # noqa: N802 - Caffe2's name
    """Fuse convolutions of the engine NNPACK with the Relu that alone reads them."""
    return _run(_ON_NETS, "FuseNNPACKConvRelu", net_def)


def transform_fuseConvBN(net_def: bytes) -> bytes:  # noqa: N802 - Caffe2's name
    """Fuse convolutions with the SpatialBN for inference that alone reads them; filters and biases change."""
    return _run(_ON_WORKSPACES, "FuseConvBN", net_def)


def ssa_rewrite(net_def: bytes) -> bytes:
    """Write each blob of a net once."""
    rewritten, _ = rewrite_to_ssa(NetDef.FromString(net_def))
    return rewritten.SerializeToString()


def memonger_compute_blob_recycling_for_dag(net_def: bytes, *_: Any) -> bytes:
    """Return the net unchanged: onnxruntime shares the memory of intermediate blobs itself."""
    return net_def


def memonger_optimize_inference_net(net_def: bytes, _static_blobs: Iterable[Any]) -> bytes:
    """Return the net unchanged: onnxruntime shares the memory of intermediate blobs itself."""
    return net_def


def _run(table: Mapping[str, Callable[[NetDef], None]], name: Any, net_def: bytes) -> bytes:
    transform = table.get(text(name))
    if transform is None:
        raise RunError(f"transform {text(name)!r} does not exist; known ones are {', '.join(sorted(table))}")
    net = NetDef.FromString(net_def)
    transform(net)
    return net.SerializeToString()


def _choose_nnpack(net: NetDef) -> None:
    for op in net.op:
        if op.type == "Conv":
            op.engine = _NNPACK


def _add_nnpack(net: NetDef) -> None:
    for op in net.op:
        if op.type == "Conv" and len(op.input) >= _CONV_WITH_BIAS and _has_nnpack_kernel(OpView(op, 0)):
            op.engine = _NNPACK


def _has_nnpack_kernel(op: OpView) -> bool:
    """Whether NNPACK computes a convolution: of images, square kernels, stride 1, channels first."""
    args = op.args
    strides = (args.integer("stride", default=1), *args.integers("strides", default=()))
    strides += (args.integer("stride_h", default=1), args.integer("stride_w", default=1))
    kernel = args.integers("kernels", default=()) or (
        args.integer("kernel_h", default=args.integer("kernel", default=0)),
        args.integer("kernel_w", default=args.integer("kernel", default=0)),
    )
    square = len(kernel) == 2 and kernel[0] == kernel[1]
    return args.text("order", default="NCHW") == "NCHW" and all(stride == 1 for stride in strides) and square


def _fuse_conv_relu(net: NetDef) -> None:
    index = 0
    while index < len(net.op):
        conv = net.op[index]
        if conv.type == "Conv" and conv.engine == _NNPACK:
            reader = _only_reader(net, index)
            if reader is not None and net.op[reader].type == "Relu":
                _merge(net, index, reader)
                conv.arg.append(Argument(name="activation", s=b"Relu"))
        index += 1


def _fuse_conv_bn(net: NetDef) -> None:
    index = 0
    while index < len(net.op):
        conv = net.op[index]
        reader = _only_reader(net, index) if conv.type == "Conv" else None
        if reader is not None and _is_inference_bn(net.op[reader]):
            _scale_parameters(net, conv, net.op[reader])
            _merge(net, index, reader)
        index += 1


def _is_inference_bn(op: OperatorDef) -> bool:
    return op.type == "SpatialBN" and OpView(op, 0).args.flag("is_test", default=False)


def _scale_parameters(net: NetDef, conv: OperatorDef, bn: OperatorDef) -> None:
    """Change the filter and bias of a convolution so that it computes what SpatialBN computes of it."""
    workspace = current()
    scale, beta, mean, variance = (workspace.host_array(name).copy() for name in bn.input[1:5])
    factor = scale / np.sqrt(variance + OpView(bn, 0).args.number("epsilon", default=1e-5))
    weights = workspace.host_array(conv.input[1])
    if len(conv.input) < _CONV_WITH_BIAS:
        conv.input.append(_unused_name("_bias", {*workspace.blobs(), *_names(net)}))
        workspace.feed(conv.input[2], np.zeros(weights.shape[0], np.float32))
    bias = workspace.host_array(conv.input[2])
    column = factor.reshape(-1, *(1 for _ in weights.shape[1:]))
    workspace.feed(conv.input[1], (weights * column).astype(np.float32))
    workspace.feed(conv.input[2], ((bias - mean) * factor + beta).astype(np.float32))


def _names(net: NetDef) -> set[str]:
    return {name for op in net.op for name in (*op.input, *op.output)} | {*net.external_input, *net.external_output}


def _unused_name(stem: str, used: set[str]) -> str:
    return next(name for number in range(len(used) + 1) if (name := f"{stem}{number}") not in used)


def _only_reader(net: NetDef, index: int) -> int | None:
    """Return the operator that alone reads the first output of an operator; None if there is none or several."""
    name = net.op[index].output[0]
    readers: list[int] = []
    overwritten = False
    for later in range(index + 1, len(net.op)):
        if name in net.op[later].input:
            readers.append(later)
        if name in net.op[later].output:
            overwritten = True
            break
    if len(readers) != 1 or (name in net.external_output and not overwritten):
        return None
    return readers[0]


def _merge(net: NetDef, index: int, reader: int) -> None:
    """Remove the reader of an operator, which takes over its output: under another name if it reads that itself."""
    op, name = net.op[index], net.op[reader].output[0]
    del net.op[reader]
    if name not in op.input:
        op.output[0] = name
        return
    fresh = _unused_name(f"{name}_fused", _names(net))
    op.output[0] = fresh
    for later in range(index + 1, len(net.op)):
        for i, read in enumerate(net.op[later].input):
            if read == name:
                net.op[later].input[i] = fresh
        if name in net.op[later].output:
            return
    for i, declared in enumerate(net.external_output):
        if declared == name:
            net.external_output[i] = fresh


_ON_NETS: Final = {"AddNNPACK": _add_nnpack, "FuseNNPACKConvRelu": _fuse_conv_relu}
_ON_WORKSPACES: Final = {"FuseConvBN": _fuse_conv_bn}
_REGISTERED: Final = {"ConvToNNPack": _choose_nnpack}

"""Arguments that a converter did not read: which of them real Caffe2 ignores too, and which stop the conversion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.schemas import operator_schema

# Arguments that some operators read to choose an implementation or to size a cache: they never change results.
IMPLEMENTATION_ARGUMENTS: Final = frozenset({
    "allow_tf32", "cudnn_exhaustive_search", "deterministic", "enable_tensor_core", "exhaustive_search",
    "float16_compute", "shared_buffer", "use_cudnn", "ws_nbytes_limit",
})  # fmt: skip
_WINDOW: Final = (
    "dilation", "dilation_h", "dilation_w", "dilations", "global_pooling", "kernel_h", "kernel_w", "kernels",
    "legacy_pad", "pad", "pad_b", "pad_l", "pad_r", "pad_t", "pads", "stride", "stride_h", "stride_w", "strides",
)  # fmt: skip
# Arguments that real Caffe2 reads and then does not use, by operator type.
UNUSED_ARGUMENTS: Final[Mapping[str, frozenset[str]]] = {
    # A base class reads them: the one of convolutions, and the one that trains the tree.
    "Int8ChannelShuffle": frozenset(_WINDOW),
    "HSoftmaxSearch": frozenset({"hierarchy"}),
    # How operands broadcast; these have one shape (Caffe2's results are undefined where they do not).
    **dict.fromkeys(("CosGradient", "SinGradient"), frozenset({"axis", "axis_str", "broadcast", "order"})),
    # Of the operators inside: links and workspaces of the executor.
    "RecurrentNetwork": frozenset({
        "num_workspaces", "offset", "rnn_executor.max_cuda_streams", "rnn_executor.num_threads", "rnn_executor_debug",
        "window",
    }),
    # Each policy reads its own arguments; here are those of all policies.
    "LearningRate": frozenset({
        "active_first", "active_period", "constant_warmup_num_iter", "cosine_lr_shrink", "cosine_max_lr",
        "cosine_min_lr", "cosine_period", "cosine_t_mult", "cyclical_decay", "cyclical_max_lr", "cyclical_step_size",
        "decay", "end_multiplier", "gamma", "inactive_period", "linear_warmup_num_iter", "lr_shrink", "m1", "m2", "m3",
        "max_iter", "max_lr", "min_lr", "multiplier", "multiplier_1", "multiplier_2", "n1", "n2", "num_iter",
        "num_iter_1", "num_iter_2", "period", "power", "start_multiplier", "start_warmup_multiplier", "stepsize",
        "sub_policy_num_iters", "t_mult",
    }),
}  # fmt: skip
# Arguments that Caffe2's helpers add to every operator, whether it reads them or not: ignoring them needs no note.
_HELPER_ARGUMENTS: Final = frozenset({"order", "init_params", "net_pos"})


class UnreadArguments(NamedTuple):
    """Names of the arguments that a converter left unread.

    ``ignored`` are those that real Caffe2 never reads either, and that somebody may have meant; ``unsupported`` those
    that it reads, or of which nothing is known.
    """

    ignored: tuple[str, ...]
    unsupported: tuple[str, ...]


def unread_arguments(view: OpView) -> UnreadArguments:
    """Judge the arguments of an operator that nobody has read so far."""
    ignored, unsupported = [], []
    names = view.args.unread
    schema = operator_schema(view.type) if names else None
    for name in names:
        if name in IMPLEMENTATION_ARGUMENTS or name in UNUSED_ARGUMENTS.get(view.type, ()):
            continue
        is_helper = name in _HELPER_ARGUMENTS
        if schema is None:
            unsupported += [] if is_helper else [name]
        elif not schema.ignores_argument(name):
            unsupported.append(name)
        elif not is_helper:
            ignored.append(name)
    return UnreadArguments(tuple(ignored), tuple(unsupported))

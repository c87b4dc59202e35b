"""Layers: convolutions, fully connected ones, and normalization. They hold their parameters, or are functions."""

from __future__ import annotations

import torch

from caffe2_bridge.netdef.window import window_argument
from caffe2_torch.source.emitters.image import one_or_all, oriented
from caffe2_torch.source.names import literal
from caffe2_torch.source.op import Family, Source, SourceOp

family = Family("layers")


def _present(op: SourceOp, *indices: int) -> list[int]:
    return [index for index in indices if op.has(index)]


@family.emits("Conv", "Conv1D", "Conv2D", "Conv3D", "ConvRelu")
def convolution(op: SourceOp) -> Source:
    op.args.ignore("force_algo_fwd", "force_algo_dgrad", "force_algo_wgrad", "freeze_bias")
    group, rank = op.args.integer("group", default=1), op.known_rank(0)
    window, dims = op.window(rank), rank - 2
    head, tail = window.head, window.tail
    if window.legacy == 1:
        head = tail = (0,) * dims
    if window.legacy in (2, 3) or not window.kernel:
        op.refuse("legacy padding is not supported")
    image = "{x}"
    if head != tail:
        pads = [pad for pair in reversed(list(zip(head, tail, strict=True))) for pad in pair]
        image, head = f"F.pad({{x}}, {pads})", (0,) * dims
    options = [f"stride={one_or_all(window.stride)}"] if set(window.stride) - {1} else []
    options += [f"padding={one_or_all(head)}"] if any(head) else []
    options += [f"dilation={one_or_all(window.dilation)}"] if set(window.dilation) - {1} else []
    options += [f"groups={group}"] if group != 1 else []
    weight, bias = op.constant(1), op.constant(2)
    if weight is not None and op.owns(*_present(op, 1, 2)):
        weight = weight.movedim(-1, 1).contiguous() if window.channels_last else weight
        options.insert(0, f"kernel_size={one_or_all(tuple(weight.shape[2:]))}")
        options += [] if op.has(2) else ["bias=False"]
        sizes = f"{weight.shape[1] * group}, {weight.shape[0]}"
        layer = op.layer(f"nn.Conv{dims}d({sizes}, {', '.join(options)})", weight=(1, weight), bias=(2, bias))
        text = f"{layer}({image})"
    else:
        kernel = f"{op.x(1)}.movedim(-1, 1)" if window.channels_last else op.x(1)
        text = f"F.conv{dims}d({', '.join([image, kernel, op.x(2) if op.has(2) else 'None', *options])})"
    text = f"F.relu({text})" if op.type == "ConvRelu" else text
    return oriented(op.x(0), text, channels_last=window.channels_last)


@family.emits("ConvTranspose")
def transposed_convolution(op: SourceOp) -> Source:
    op.args.ignore("no_gradient_to_input")
    group, adj = op.args.integer("group", default=1), tuple(window_argument(op.args, "adj", 2) or [0, 0])
    window = op.window(4, dilated=False)
    weight, bias = op.constant(1), op.constant(2)
    if window.legacy:
        op.refuse("legacy padding is not supported")
    head, image = window.head, "{x}"
    crop = ""
    if head != window.tail:
        # What pads would cut off is cut off afterwards.
        ranges = [f"{a or ''}:{-b if b else ''}" for a, b in zip(head, window.tail, strict=True)]
        head, crop = (0, 0), f"[:, :, {', '.join(ranges)}]"
    options = [f"stride={one_or_all(window.stride)}"]
    options += [f"padding={one_or_all(head)}"] if any(head) else []
    options += [f"output_padding={one_or_all(adj)}"] if any(adj) else []
    options += [f"groups={group}"] if group != 1 else []
    if weight is not None and op.owns(*_present(op, 1, 2)):
        weight = weight.movedim(-1, 1).contiguous() if window.channels_last else weight
        options.insert(0, f"kernel_size={one_or_all(window.kernel)}")
        options += [] if op.has(2) else ["bias=False"]
        sizes = f"{weight.shape[0]}, {weight.shape[1] * group}"
        layer = op.layer(f"nn.ConvTranspose2d({sizes}, {', '.join(options)})", weight=(1, weight), bias=(2, bias))
        text = f"{layer}({image})"
    else:
        kernel = f"{op.x(1)}.movedim(-1, 1)" if window.channels_last else op.x(1)
        operands = [image, kernel, op.x(2) if op.has(2) else "None"]
        text = f"F.conv_transpose2d({', '.join([*operands, *options])})"
    return oriented(op.x(0), f"{text}{crop}", channels_last=window.channels_last)


@family.emits("FC", "FCTransposed")
def fully_connected(op: SourceOp) -> Source:
    op.args.ignore("freeze_bias")
    axis, rank = op.axis("axis", 1), op.rank(0)
    weight, bias = op.constant(1), op.constant(2)
    axis_w = op.axis("axis_w", 1, rank=weight.dim() if weight is not None else op.rank(1) or 2)
    x = op.x(0) if rank == axis + 1 else f"{op.x(0)}.flatten({axis})"
    if rank == axis:
        op.refuse("axis must be below the rank of X")
    if weight is not None and bias is not None and op.owns(1, 2):
        weight = weight.reshape(int(torch.tensor(weight.shape[:axis_w]).prod()), -1)
        weight = weight.t().contiguous() if op.type == "FCTransposed" else weight
        constructor = f"nn.Linear({weight.shape[1]}, {weight.shape[0]})"
        return f"{op.layer(constructor, weight=(1, weight), bias=(2, bias.reshape(-1)))}({x})"
    w = op.x(1) if op.rank(1) == 2 and axis_w == 1 else f"{op.x(1)}.flatten({axis_w})"
    w = f"{w}.flatten(0, {axis_w - 1})" if axis_w > 1 else w
    w = f"{w}.t()" if op.type == "FCTransposed" else w
    return f"F.linear({x}, {w}, {op.x(2) if op.rank(2) == 1 else f'{op.x(2)}.flatten()'})"


@family.emits("SpatialBN")
def spatial_bn(op: SourceOp) -> Source:
    """Let the layer of a net for training update the running moments, as PyTorch does."""
    last, rank = op.args.text("order", default="NCHW") == "NHWC", op.known_rank(0)
    epsilon, momentum = op.args.number("epsilon", default=1e-5), op.args.number("momentum", default=0.9)
    test = op.args.flag("is_test", default=False)
    if op.args.integer("num_batches", default=1) != 1 or rank > 5:
        op.refuse("moments of several batches are not supported")
    nothing = (None,) * 4
    values = [op.constant(index) for index in range(1, 5)]
    if op.owns(1, 2, 3, 4) and all(value is not None for value in values):
        scale, bias, mean, var = (v.reshape(-1) if v is not None else None for v in values)
        assert scale is not None
        options = [f"eps={literal(epsilon)}"] if literal(epsilon) != "1e-05" else []
        options += [] if test or abs(momentum - 0.9) < 1e-6 else [f"momentum={literal(1 - momentum)}"]
        dims = {2: 1, 3: 1, 4: 2, 5: 3}[rank]
        constructor = f"nn.BatchNorm{dims}d({', '.join([str(scale.numel()), *options])})"
        layer = op.layer(
            constructor, weight=(1, scale), bias=(2, bias), running_mean=(3, mean), running_var=(4, var)
        )  # fmt: skip
        op.state.weights[f"{layer.removeprefix('self.')}.num_batches_tracked"] = torch.tensor(0)
        return (oriented(op.x(0), f"{layer}({{x}})", channels_last=last), *nothing)
    if not test:
        op.refuse("a SpatialBN for training must have parameters of its own")
    mean_, var_, scale_, bias_ = (op.x(i) for i in (3, 4, 1, 2))
    text = f"F.batch_norm({{x}}, {mean_}, {var_}, {scale_}, {bias_}, eps={literal(epsilon)})"
    return (oriented(op.x(0), text, channels_last=last), *nothing)


@family.emits("ElementwiseLinear")
def elementwise_linear(op: SourceOp) -> Source:
    axis, rank = op.axis("axis", 1), op.known_rank(0)
    w, b = op.x(1), op.x(2)
    if rank == axis + 1 and op.rank(1) == op.rank(2) == 1:
        return f"{op.x(0)} * {w} + {b}"
    tail = f"{op.x(0)}.shape[{axis}:]"
    return f"{op.x(0)} * {w}.reshape({tail}) + {b}.reshape({tail})"


@family.emits("LayerNorm")
def layer_norm(op: SourceOp) -> Source:
    axis, epsilon = op.axis("axis", 1), op.args.number("epsilon", default=1e-5)
    affine = op.args.flag("elementwise_affine", default=False)
    tail = f"{op.x(0)}.shape[{axis}:]"
    rank = op.rank(0)
    scale, shift = (
        (op.x(i) if rank is not None and op.rank(i) == rank - axis else f"{op.x(i)}.reshape({tail})" for i in (1, 2))
        if affine else ("", "")
    )  # fmt: skip
    if not (op.wants(1) or op.wants(2)):
        parts = f"{tail}, {scale}, {shift}" if affine else tail
        return (f"F.layer_norm({op.x(0)}, {parts}, eps={literal(epsilon)})", None, None)
    call = op.call("layer_norm", op.x(0), str(axis), literal(epsilon))
    return (f"{call}[0] * {scale} + {shift}" if affine else f"{call}[0]", f"{call}[1]", f"{call}[2]")


@family.emits("RMSNorm")
def rms_norm(op: SourceOp) -> Source:
    axis, epsilon = op.axis("axis", 1), op.args.number("eps", default=0.0)
    if op.wants(1):
        op.refuse("the reciprocal of the root of the mean square as an output is not supported")
    x, tail = op.x(0), f"{op.x(0)}.shape[{axis}:]"
    scale, shift = (op.x(i) if op.rank(i) == op.known_rank(0) - axis else f"{op.x(i)}.reshape({tail})" for i in (1, 2))
    dims = list(range(axis, op.known_rank(0)))
    mean = f"{x}.square().mean({dims[0] if len(dims) == 1 else dims}, keepdim=True)"
    return (f"{x} * torch.rsqrt({mean}{f' + {literal(epsilon)}' if epsilon else ''}) * {scale} + {shift}", None)


@family.emits("GroupNorm")
def group_norm(op: SourceOp) -> Source:
    op.args.ignore("is_test")
    group, epsilon = op.args.integer("group", default=32), op.args.number("epsilon", default=1e-5)
    if op.args.text("order", default="NCHW") != "NCHW":
        op.refuse("order NHWC is not supported")
    return (f"F.group_norm({op.x(0)}, {group}, {op.x(1)}, {op.x(2)}, eps={literal(epsilon)})", None, None)

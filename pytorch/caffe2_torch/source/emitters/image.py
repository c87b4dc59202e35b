"""Pooling, resizing, and the order of an image's dims."""

from __future__ import annotations

from caffe2_torch.source.names import literal
from caffe2_torch.source.op import Family, Source, SourceOp

family = Family("image")


def one_or_all(sizes: tuple[int, ...]) -> str:
    """Return the source of sizes along each axis: one number where they are equal."""
    return str(sizes[0]) if len(set(sizes)) == 1 else repr(tuple(sizes))


def oriented(x: str, expression: str, *, channels_last: bool) -> str:
    """Return an expression in which ``{x}`` is an image [N, C, ...], for one that may have its channels last."""
    if not channels_last:
        return expression.format(x=x)
    return f"{expression.format(x=f'{x}.movedim(-1, 1)')}.movedim(1, -1)"


@family.emits(*(f"{kind}Pool{dims}" for kind in ("Max", "Average") for dims in ("", "1D", "2D", "3D")))
def pool(op: SourceOp) -> Source:
    """Emit PyTorch's ``ceil_mode`` for Caffe's rounding (``legacy_pad=3``)."""
    rank, is_max = op.known_rank(0), op.type.startswith("Max")
    counts_pads = op.args.flag("count_include_pad", default=False)
    window, dims = op.window(rank), rank - 2
    if not window.kernel:
        axes = tuple(range(2, rank))
        text = "{x}." + ("amax" if is_max else "mean") + f"(dim={axes}, keepdim=True)"
        return oriented(op.x(0), text, channels_last=window.channels_last)
    head, tail = window.head, window.tail
    if window.legacy == 1:
        head = tail = (0,) * dims
    caffe = window.legacy == 3
    fits = all(p or k >= s for p, k, s in zip(head, window.kernel, window.stride, strict=True))
    if window.legacy == 2 or set(window.dilation) - {1} or (caffe and (not fits or counts_pads)):
        op.refuse("dilation and legacy padding of this kind are not supported")
    image, inside = "{x}", head == tail or caffe
    if not inside or any(2 * p > k for p, k in zip(head, window.kernel, strict=True)):
        pads = [pad for pair in reversed(list(zip(head, tail, strict=True))) for pad in pair]
        if not is_max and not counts_pads:
            if dims != 2:
                op.refuse("the mean over a window with unequal pads is supported for images with two axes alone")
            call = op.call("average_pool", "{x}", str(pads), str(window.kernel), str(window.stride))
            return oriented(op.x(0), call, channels_last=window.channels_last)
        image = f"F.pad({{x}}, {pads}" + (', value=float("-inf"))' if is_max else ")")
        head = (0,) * dims
    options = [one_or_all(window.kernel), f"stride={one_or_all(window.stride)}"]
    options += [f"padding={one_or_all(head)}"] if any(head) else []
    options += ["ceil_mode=True"] if caffe else []
    options += ["count_include_pad=False"] if not is_max and any(head) and not counts_pads else []
    name = f"F.{'max' if is_max else 'avg'}_pool{dims}d"
    return oriented(op.x(0), f"{name}({image}, {', '.join(options)})", channels_last=window.channels_last)


@family.emits("ResizeNearest")
def resize_nearest(op: SourceOp) -> Source:
    last = op.args.text("order", default="NCHW") == "NHWC"
    if op.has(1):
        op.refuse("scales as an operand are not supported")
    scales = [op.args.number(name, default=1.0) for name in ("height_scale", "width_scale")]
    if all(scale.is_integer() for scale in scales):
        factors = tuple(map(int, scales))
        factor = str(factors[0]) if len(set(factors)) == 1 else repr(factors)
        call = f'F.interpolate({{x}}, scale_factor={factor}, mode="nearest")'
    else:
        call = op.call("resize_nearest", "{x}", *map(literal, scales))
    return oriented(op.x(0), call, channels_last=last)


@family.emits("NHWC2NCHW", "NCHW2NHWC")
def reorder(op: SourceOp) -> Source:
    return f"{op.x(0)}.movedim({'-1, 1' if op.type == 'NHWC2NCHW' else '1, -1'})"


@family.emits("LRN")
def local_response(op: SourceOp) -> Source:
    size, last = op.args.integer("size", default=0), op.args.text("order", default="NCHW") == "NHWC"
    if size % 2 == 0:
        op.refuse("an even size is not supported")
    alpha, beta = (literal(op.args.number(name, default=0.0)) for name in ("alpha", "beta"))
    bias = literal(op.args.number("bias", default=1.0))
    text = f"F.local_response_norm({{x}}, {size}, alpha={alpha}, beta={beta}, k={bias})"
    return (oriented(op.x(0), text, channels_last=last), None)

"""Copies, casts, fills, shapes, concatenation, splitting and slicing."""

from __future__ import annotations

import torch

from caffe2_bridge.netdef.data_type import data_type
from caffe2_bridge.proto.caffe2_pb2 import TensorProto
from caffe2_torch.evaluation.values import DTYPES
from caffe2_torch.source.names import literal
from caffe2_torch.source.op import Family, Source, SourceOp, Unpacked

family = Family("shape")


@family.emits(
    "Alias", "AliasWithName", "Copy", "CopyCPUToGPU", "CopyFromCPUInput", "CopyGPUToCPU", "EnsureCPUOutput",
    "EnsureDense",
)  # fmt: skip
def identity(op: SourceOp) -> Source:
    op.args.ignore("name", "is_backward")
    return op.x(0)


@family.emits("StopGradient")
def stop_gradient(op: SourceOp) -> Source:
    return f"{op.x(0)}.detach()"


@family.emits("Cast")
def cast(op: SourceOp) -> Source:
    op.args.ignore("from_type")
    number = data_type(op.args, "to", default=TensorProto.FLOAT)
    dtype = DTYPES.get(number)
    if dtype is None or number in (TensorProto.FLOAT16, TensorProto.BYTE):
        op.refuse(f"a cast to Caffe2's type {number} is not supported")
    if dtype in (torch.uint8, torch.int8, torch.uint16, torch.int16):
        return f"{op.x(0)}.to(torch.int32).to({dtype})"
    return f"{op.x(0)}.to({dtype})"


@family.emits("HalfToFloat")
def half_to_float(op: SourceOp) -> Source:
    return f"{op.x(0)}.float()"


@family.emits("ConstantFill")
def constant_fill(op: SourceOp) -> Source:
    shape, extra = op.args.integers("shape", default=()), op.args.integers("extra_shape", default=())
    number = data_type(op.args, "dtype", default=TensorProto.FLOAT)
    dtype = DTYPES.get(number)
    as_shape = op.args.flag("input_as_shape", default=False)
    if op.has(1) or dtype is None:
        op.refuse("a fill with strings or a value as an operand is not supported")
    if dtype.is_floating_point:
        value: object = op.args.number("value", default=0.0)
    elif dtype == torch.bool:
        value = op.args.flag("value", default=False)
    else:
        value = op.args.integer("value", default=0)
    size = repr(tuple(shape))
    if op.has(0):
        size = f"{op.x(0)}.tolist()" if as_shape else f"{op.x(0)}.shape"
        size = f"(*{size}, {', '.join(map(str, extra))})" if extra else size
    named = "" if dtype == torch.float32 else f", dtype={dtype}"
    device = f", device={op.x(0)}.device" if op.has(0) else op.device
    return f"torch.full({size}, {literal(value)}{named}{device})"


@family.emits("Reshape")
def reshape(op: SourceOp) -> Source:
    """Read 0 as the dim of X at that position."""
    x = op.x(0)
    dtype = ", dtype=torch.int32" if op.has(1) and op.dtype(1) == torch.int32 else ""
    old = f"torch.tensor({x}.shape{dtype})" if op.wants(1) else None
    if op.has(1):
        shape = op.constant(1)
        if shape is None:
            return (f"{x}.reshape([d or {x}.shape[i] for i, d in enumerate({op.x(1)}.tolist())])", old)
        dims = shape.reshape(-1).tolist()
    else:
        dims = list(op.args.integers("shape"))
    sizes = [f"{x}.shape[{index}]" if dim == 0 else str(dim) for index, dim in enumerate(dims)]
    return (f"{x}.reshape({', '.join(sizes) or '()'})", old)


@family.emits("Squeeze")
def squeeze(op: SourceOp) -> Source:
    dims = tuple(sorted(set(op.args.integers("dims"))))
    return f"{op.x(0)}.squeeze({dims[0] if len(dims) == 1 else dims})"


@family.emits("ExpandDims")
def expand_dims(op: SourceOp) -> Source:
    return op.x(0) + "".join(f".unsqueeze({dim})" for dim in sorted(set(op.args.integers("dims"))))


@family.emits("Transpose")
def transpose(op: SourceOp) -> Source:
    axes = list(op.args.integers("axes", default=())) or list(range(op.known_rank(0)))[::-1]
    return f"{op.x(0)}.permute({', '.join(map(str, axes))})"


@family.emits("Flatten")
def flatten(op: SourceOp) -> Source:
    axis, rank = op.axis("axis", 1), op.rank(0)
    if axis == 1:
        return f"{op.x(0)}.flatten(1)" if rank != 1 else f"{op.x(0)}.unsqueeze(1)"
    if axis in (0, rank):
        return f"{op.x(0)}.reshape({'1, -1' if axis == 0 else '-1, 1'})"
    return f"{op.x(0)}.flatten({axis}).flatten(0, {axis - 1})"


@family.emits("FlattenToVec")
def flatten_to_vector(op: SourceOp) -> Source:
    return f"{op.x(0)}.flatten()"


@family.emits("Shape")
def shape_of(op: SourceOp) -> Source:
    axes = op.args.integers("axes", default=())
    shape = f"[{', '.join(f'{op.x(0)}.shape[{axis}]' for axis in axes)}]" if axes else f"{op.x(0)}.shape"
    return f"torch.tensor({shape})"


def _axis(op: SourceOp) -> int:
    axis, order = op.args.optional_integer("axis"), op.args.text("order", default="")
    return (3 if order == "NHWC" else 1) if axis is None else axis


@family.emits("Concat", "DepthConcat")
def concat(op: SourceOp) -> Source:
    op.args.ignore("split", "use_scaling_lengths")
    adds = op.args.flag("add_axis", default=False) and "axis" in op.args
    axis = _axis(op)
    info = None
    if op.wants(1):
        sizes = ", ".join("1" if adds else f"{x}.shape[{axis}]" for x in op.operands)
        info = f"torch.tensor([{sizes}], dtype=torch.int32)"
    return (f"torch.{'stack' if adds else 'cat'}([{', '.join(op.operands)}], dim={axis})", info)


@family.emits("Split", "DepthSplit")
def split(op: SourceOp) -> Source:
    axis, count, given = _axis(op), op.output_count, list(op.args.integers("split", default=()))
    op.args.ignore("use_scaling_lengths")
    if op.has(1) or op.args.flag("add_axis", default=False):
        op.refuse("sizes as an operand and add_axis are not supported")
    if given:
        return Unpacked(f"{op.x(0)}.split({given}, dim={axis})")
    return Unpacked(f"{op.x(0)}.chunk({count}, dim={axis})")


@family.emits("Slice")
def slice_ranges(op: SourceOp) -> Source:
    """Read a negative index ``i`` as ``size + 1 + i``."""
    if op.has(1):
        op.args.ignore("starts", "ends")
        first, last = op.constant(1), op.constant(2)
        if first is None or last is None:
            op.refuse("starts and ends that are computed are not supported")
        starts, ends = first.tolist(), last.tolist()
    else:
        starts, ends = list(op.args.integers("starts")), list(op.args.integers("ends"))
    return ranges_of(op, starts, ends)


def ranges_of(op: SourceOp, starts: list[int], ends: list[int]) -> str:
    """Return ranges of X, as Caffe2 counts them."""
    ranges = []
    if len(starts) != len(ends):
        op.refuse("starts and ends of different lengths are not supported")
    for start, end in zip(starts, ends, strict=True):
        low = "" if start == 0 else str(start) if start > 0 else str(start + 1)
        ranges.append(f"{low}:{'' if end == -1 else end if end >= 0 else end + 1}")
        if start == -1:
            op.refuse("a range from the end on is not supported")
    while ranges and ranges[-1] == ":":
        ranges.pop()
    return f"{op.x(0)}[{', '.join(ranges)}]" if ranges else op.x(0)


@family.emits("Gather")
def gather(op: SourceOp) -> Source:
    op.args.ignore("wrap_indices")
    axis = op.axis("axis", 0)
    if op.args.flag("match_outer", default=False) or op.dtype(1) not in (torch.int32, torch.int64):
        op.refuse("match_outer is not supported, and the type of the indices must be known")
    prefix = ":, " * axis
    return f"{op.x(0)}[{prefix}{op.x(1)}]" if op.dtype(1) == torch.int64 else f"{op.x(0)}[{prefix}{op.x(1)}.long()]"

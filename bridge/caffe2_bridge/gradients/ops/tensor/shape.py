"""Gradients of reshapes, transpositions, slices and concatenations."""

from __future__ import annotations

from caffe2_bridge.gradients.family import Family
from caffe2_bridge.gradients.forward import Forward

family = Family("shape")

family.pattern("dY0 X0 -> dX0", "Expand", Flatten="ResizeLike", FlattenToVec="ResizeLike")
family.pattern(
    "dY0 -> dX0",
    "ChannelShuffle",
    ExpandDims="Squeeze", NCHW2NHWC="NHWC2NCHW", NHWC2NCHW="NCHW2NHWC", Squeeze="ExpandDims",
)  # fmt: skip
family.pattern("dY0 X1* -> dX0", "Tile")


@family.differentiates("Slice")
def slice_(op: Forward) -> None:
    """SliceGradient(X, [starts, ends], dY) -> dX."""
    limits = [op.x(1), op.x(2)] if len(op.inputs) > 1 else []
    op.emit("SliceGradient", [op.x(0), *limits, op.dy(0)], [op.dx(0)])


@family.differentiates("PrependDim", copies_arguments=False)
def prepend_dim(op: Forward) -> None:
    """MergeDim(dY) -> dX."""
    op.emit("MergeDim", [op.dy(0)], [op.dx(0)])


@family.differentiates("Reshape", copies_arguments=False)
def reshape(op: Forward) -> None:
    """Reshape(dY, old_shape) -> dX; the old shape is the second output of the forward operator."""
    op.emit("Reshape", [op.dy(0), op.y(1)], [op.dx(0), f"_{op.dx(0)}_dims"])


@family.differentiates("Transpose", copies_arguments=False)
def transpose(op: Forward) -> None:
    """Transpose(dY; axes=inverse permutation) -> dX; without axes both reverse the dims."""
    op.emit("Transpose", [op.dy(0)], [op.dx(0)])
    gradient = op.operators[-1]
    gradient.arg.extend(op.proto.arg)
    for arg in gradient.arg:
        if arg.name == "axes":
            axes = list(arg.ints)
            if sorted(axes) != list(range(len(axes))):
                raise op.error(f"axes {axes} must be a permutation of 0 ... {len(axes) - 1}")
            arg.ints[:] = sorted(range(len(axes)), key=axes.__getitem__)


@family.differentiates("Concat", "DepthConcat")
def concat(op: Forward) -> None:
    """Split(dY, split_info) -> dX..."""
    if op.has_dy(0):
        op.emit("Split", [op.dy(0), op.y(1)], [op.dx(index) for index in range(len(op.inputs))])


@family.differentiates("DepthSplit", "Split", "SplitByLengths")
def split(op: Forward) -> None:
    """Concat(dY...) -> dX, split_info."""
    parts = [op.dy(index) for index in range(len(op.outputs)) if op.has_dy(index)]
    if parts:
        op.emit("Concat", parts, [op.dx(0), f"_{op.dx(0)}_dims"])

"""Gradients of normalizations."""

from __future__ import annotations

from caffe2_bridge.gradients.family import Family
from caffe2_bridge.gradients.forward import Forward

family = Family("normalization")

family.pattern("dY0 X0 X1 X2 Y1 Y2 -> dX0 dX1 dX2", "GroupNorm")
family.pattern("dY0 X0 X1 Y1 -> dX0 dX1 dX2", "RMSNorm")
family.pattern("X0 X1 X2 dY0 Y1* -> dX0 dX1 dX2", "InstanceNorm")
family.pattern("X0 Y0 dY0 -> dX0", "LRN")
family.pattern("X0 dY0 -> dX0", "Normalize", "LpNorm")


@family.differentiates("LayerNorm")
def layer_norm(op: Forward) -> None:
    """LayerNormGradient(dY, Y, mean, std, X, [gamma]) -> dX, [dgamma, dbeta]."""
    inputs = [op.dy(0), op.y(0), op.y(1), op.y(2), op.x(0)]
    if op.args.flag("elementwise_affine", default=False):
        op.emit("LayerNormGradient", [*inputs, op.x(1)], [op.dx(0), op.dx(1), op.dx(2)])
    else:
        op.emit("LayerNormGradient", inputs, [op.dx(0)])


@family.differentiates("SpatialBN")
def spatial_bn(op: Forward) -> None:
    """SpatialBNGradient(X, scale, dY, mean, std, [dscale, dbias]) -> dX, dscale, dbias.

    The statistics are the saved ones in training, the given ones with ``is_test``. With ``num_batches`` above 1, dscale
    and dbias are inputs too: the sums over these batches.
    """
    test = op.args.flag("is_test", default=False)
    several = not test and op.args.integer("num_batches", default=1) > 1
    wanted = (7 if several else 5, 1 if test else 5)
    if (len(op.inputs), len(op.outputs)) != wanted:
        raise op.error(f"the operator must have {wanted[0]} inputs and {wanted[1]} outputs with is_test {test:d}")
    outputs = [op.dx(0), op.dx(1), op.dx(2)]
    statistics = [op.x(3), op.x(4)] if test else [op.y(3), op.y(4)]
    inputs = [op.x(0), op.x(1), op.dy(0), *statistics]
    if several:
        inputs += outputs[1:]
    op.emit("SpatialBNGradient", inputs, outputs)


@family.differentiates("AffineChannel")
def affine_channel(op: Forward) -> None:
    """AffineChannelGradient(dY, [X], scale) -> dX, [dscale, dbias]; the optional operands if ``is_learnable``."""
    if op.args.flag("is_learnable", default=False):
        op.emit("AffineChannelGradient", [op.dy(0), op.x(0), op.x(1)], [op.dx(0), op.dx(1), op.dx(2)])
    else:
        op.emit("AffineChannelGradient", [op.dy(0), op.x(1)], [op.dx(0)])

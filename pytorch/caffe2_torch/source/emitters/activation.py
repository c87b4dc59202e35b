"""Activation functions, softmax and dropout."""

from __future__ import annotations

from typing import Final

from caffe2_torch.source.names import literal
from caffe2_torch.source.op import Family, Source, SourceOp

family = Family("activation")

_FUNCTIONS: Final = {
    "Relu": "F.relu", "Sigmoid": "torch.sigmoid", "Tanh": "torch.tanh", "Softplus": "F.softplus",
    "Softsign": "F.softsign", "Mish": "F.mish", "Swish": "F.silu", "Abs": "torch.abs", "Acos": "torch.acos",
    "Asin": "torch.asin", "Atan": "torch.atan", "Ceil": "torch.ceil", "Cos": "torch.cos", "Cosh": "torch.cosh",
    "Erf": "torch.erf", "Exp": "torch.exp", "Floor": "torch.floor", "Log": "torch.log", "Log1p": "torch.log1p",
    "Reciprocal": "torch.reciprocal", "Rsqrt": "torch.rsqrt", "Sign": "torch.sign", "Sin": "torch.sin",
    "Sinh": "torch.sinh", "Sqrt": "torch.sqrt", "Sqr": "torch.square", "Tan": "torch.tan", "Not": "torch.logical_not",
}  # fmt: skip


@family.emits(*_FUNCTIONS)
def function(op: SourceOp) -> Source:
    return f"{_FUNCTIONS[op.type]}({op.x(0)})"


@family.emits("Negative")
def negative(op: SourceOp) -> Source:
    return f"-{op.x(0)}"


@family.emits("Elu", "LeakyRelu")
def with_alpha(op: SourceOp) -> Source:
    name, default = ("F.elu", 1.0) if op.type == "Elu" else ("F.leaky_relu", 0.01)
    return f"{name}({op.x(0)}, {literal(op.args.number('alpha', default=default))})"


@family.emits("Gelu")
def gelu(op: SourceOp) -> Source:
    return (
        f'F.gelu({op.x(0)}, approximate="tanh")' if op.args.flag("fast_gelu", default=False) else f"F.gelu({op.x(0)})"
    )


@family.emits("Clip")
def clip(op: SourceOp) -> Source:
    limits = [f"{name}={literal(op.args.number(name))}" for name in ("min", "max") if name in op.args]
    return f"{op.x(0)}.clamp({', '.join(limits)})" if limits else op.x(0)


@family.emits("Logit")
def logit(op: SourceOp) -> Source:
    return f"torch.logit({op.x(0)}, eps={literal(op.args.number('eps', default=1e-6))})"


@family.emits("PRelu")
def prelu(op: SourceOp) -> Source:
    op.args.ignore("alpha")
    slope = op.constant(1)
    one = slope is not None and slope.numel() == 1
    if not one and op.args.text("order", default="NCHW") != "NCHW":
        op.refuse("order NHWC is not supported")
    if one or op.rank(1) == 1:
        return f"F.prelu({op.x(0)}, {op.x(1)})"
    return f"F.prelu({op.x(0)}, {op.x(1)}.flatten())"


@family.emits("Softmax")
def softmax(op: SourceOp) -> Source:
    axis, x, rank = op.axis("axis", 1), op.x(0), op.rank(0)
    if rank is not None and axis == rank - 1:
        return f"F.softmax({x}, dim={axis})"
    return f"F.softmax({x}.flatten({axis}), dim=-1).reshape({x}.shape)"


@family.emits("Dropout")
def dropout(op: SourceOp) -> Source:
    """Emit a function that drops only in training, and nothing for a net for evaluation."""
    ratio = op.args.number("ratio", default=0.5)
    if op.args.flag("is_test"):
        return (op.x(0), None)
    return (f"F.dropout({op.x(0)}, {literal(ratio)}, training=self.training)", None)

"""Whether operands of gradients have the sizes that their forward operators give them: Caffe2 compares few of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from conformance.corpus import Array
from conformance.oracle import OracleResult, OracleRun

from caffe2_bridge.control import all_operators
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from fuzz.exact.drawing.drawn import Drawn
from fuzz.exact.drawing.structure import UNARY

_Shape = tuple[int, ...]
Runs = Callable[[Sequence[OracleRun]], Sequence[OracleResult | Exception]]


@dataclass(frozen=True)
class _Forward:
    """How a gradient's operands follow from its forward operator.

    Attributes:
        inputs: the operands of the gradient that the forward operator reads.
        results: the operands of the gradient that have the shape of an output of the forward operator, by its index;
            -1 is the last operand.
        arguments: further arguments of the forward operator.
        defaults: those of the gradient, where it has no such arguments.
        bias: the operand whose last dim is that of a last operand of zeros, which the forward operator needs.
        type: the forward operator, where its type is not that of the gradient without its suffix.
    """

    inputs: tuple[int, ...]
    results: Mapping[int, int]
    arguments: Mapping[str, int] = field(default_factory=dict)
    defaults: Mapping[str, int] = field(default_factory=dict)
    bias: int | None = None
    type: str = ""


_POOLS: Final = tuple(f"{kind}{dims}" for kind in ("MaxPool", "AveragePool") for dims in ("", "1D", "2D", "3D"))
_PRODUCTS: Final = (
    *(f"{kind}{dims}" for kind in ("Conv", "LC") for dims in ("", "1D", "2D", "3D")),
    "ConvTranspose",
)  # fmt: skip
# Gradients of elementwise operators from its operand or its result, and from the gradient of the result.
ELEMENTWISE: Final = (
    "Abs", "Acos", "Asin", "Atan", "Cbrt", "Clip", "Cos", "Cosh", "Cube", "Elu", "Erf", "LeakyRelu", "Log1p", "Logit",
    "Reciprocal", "Relu", "ReluN", "Rsqrt", "Selu", "Sigmoid", "Sin", "Sinh", "Softplus", "Softsign", "Tan", "Tanh",
    "ThresholdedRelu",
)  # fmt: skip
_ENDS: Final = ("Front", "Back")
# DivGradient(B, C, dC), for an A of the shape of C.
_SHORT_DIV: Final = "DivGradient of 3"
_FORWARD: Final[Mapping[str, _Forward]] = {
    **{f"{kind}Gradient": _Forward((0,), {1: 0, 2: 0}) for kind in (*_POOLS, "LpPool", "LRN")},
    **{f"{kind}Gradient": _Forward((0, 1), {2: 0}, {"no_bias": 1}) for kind in _PRODUCTS},
    **{f"{kind}Gradient": _Forward((0, 1), {2: 0}) for kind in ("RoIAlign", "RoIAlignRotated")},
    **{f"{kind}Gradient": _Forward((1, 2), {0: 0}) for kind in ("UpsampleBilinear", "ResizeNearest")},
    "ResizeNearest3DGradient": _Forward((1,), {0: 0}),
    "IntegralImageGradient": _Forward((0,), {1: 0}),
    "LayerNormGradient": _Forward((4,), {0: 0, 1: 0, 2: 1, 3: 2}, {"elementwise_affine": 0}),
    "RMSNormGradient": _Forward((1, 2, 2), {0: 0, 3: 1}),
    "GroupNormGradient": _Forward((1, 2, 3), {0: 0, 4: 1, 5: 2}),
    "InstanceNormGradient": _Forward((0, 1, 2), {3: 0, 4: 1, 5: 2}),
    **{f"{kind}Gradient": _Forward((0,), {1: 0}) for kind in ELEMENTWISE},
    **{f"{kind}Gradient": _Forward((1, 2), {0: 0}) for kind in ("Add", "Sub", "Mul")},
    "DivGradient": _Forward((1, 2), {0: 0, 3: 0}),
    _SHORT_DIV: _Forward((1, 0), {2: 0}),
    **{f"{kind}DistanceGradient": _Forward((0, 1), {2: 0}) for kind in ("L1", "SquaredL2")},
    **{f"Reduce{kind}Gradient": _Forward((1,), {0: 0, 2: 0}) for kind in ("Sum", "Mean", "L1", "L2", "Max", "Min")},
    **{f"Reduce{end}{kind}Gradient": _Forward((1, 2), {0: 0}) for end in _ENDS for kind in ("Sum", "Mean")},
    **{f"Reduce{end}MaxGradient": _Forward((1, 3), {0: 0, 2: 0}) for end in _ENDS},
    **{f"{kind}wiseMaxGradient": _Forward((0,), {1: 0, 2: 0}) for kind in ("Row", "Col")},
    "PReluGradient": _Forward((2, 3), {0: 0, 1: 0}),
    **{f"{kind}Gradient": _Forward((0, 1), {2: 0}, bias=2) for kind in ("FC", "FCTransposed")},
    # BatchGather does not read the axis, and its gradient does.
    "BatchGatherGradient": _Forward((0, 1), {2: 0}, defaults={"axis": 1}, type="Gather"),
    "SliceGradient": _Forward((0, 1, 2), {-1: 0}),
    "BatchMomentsGradient": _Forward((2,), {0: 0, 1: 1}),
    "MomentsGradient": _Forward((2,), {0: 0, 1: 1, 3: 0}),
    "Col2Im": _Forward((1,), {0: 0}, type="Im2Col"),
}


def are_of_other_sizes(drawn: Drawn, runs: Runs) -> bool | None:
    """Whether an operand of a gradient does not have the shape that the forward operator gives it in real Caffe2.

    The same holds if the forward operator refuses its operands. Gradients that read results of other operators are not
    checked, but for elementwise ones. None if operands agree as far as checked, but not all operators are checked.
    """
    checks = list(_checks(drawn))
    operators = [view for view in all_operators(NetView(drawn.net)) if view.type not in {*UNARY, "If"}]
    results = runs([run for run, _ in checks])
    contradict = any(
        isinstance(real, Exception)
        or bool(real.error)
        or any(real.outputs[name].shape != shape for name, shape in shapes)
        for real, (_, shapes) in zip(results, checks, strict=True)
    )
    return True if contradict else False if len(checks) == len(operators) else None


def _checks(drawn: Drawn) -> Iterator[tuple[OracleRun, list[tuple[str, _Shape]]]]:
    """For each gradient whose operands are inputs: a run of its forward operator, and the shapes that it must yield."""
    known = _known(drawn)
    for view in all_operators(NetView(drawn.net)):
        count = len(view.inputs)
        how = _FORWARD.get(_SHORT_DIV if view.type == "DivGradient" and count == 3 else view.type)
        if how is None or not set(view.inputs) <= set(known):
            continue
        results = {operand % count: index for operand, index in how.results.items() if operand < count}
        inputs = [view.inputs[index] for index in how.inputs if index < count and index not in results]
        shapes = [(f"forward/{index}", known[view.inputs[operand]].shape) for operand, index in results.items()]
        outputs = [f"forward/{index}" for index in range(1 + max(how.results.values()))]
        op = OperatorDef(type=how.type or view.type.removesuffix("Gradient"), input=inputs, output=outputs)
        op.arg.extend(arg for arg in view.proto.arg if arg.name not in how.arguments)
        given = {arg.name for arg in view.proto.arg}
        missing = {name: value for name, value in how.defaults.items() if name not in given}
        for name, value in {**how.arguments, **missing}.items():
            op.arg.add(name=name, i=value)
        fed = {name: known[name] for name in inputs}
        if how.bias is not None:
            fed["forward/bias"] = np.zeros(known[view.inputs[how.bias]].shape[-1:], np.float32)
            op.input.append("forward/bias")
        yield OracleRun(NetDef(op=[op], external_input=list(fed)), fed, outputs=outputs), shapes


def _known(drawn: Drawn) -> dict[str, Array]:
    """Arrays of the shapes of the inputs, and of what elementwise operators make of them."""
    known = dict(drawn.inputs)
    for op in all_operators(NetView(drawn.net)):
        if op.type in UNARY and op.inputs[0] in known:
            known[op.outputs[0]] = known[op.inputs[0]]
    return known

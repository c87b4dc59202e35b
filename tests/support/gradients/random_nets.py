"""Random nets of operators that keep a shape, with blobs that are read often, overwritten and written in place."""

from __future__ import annotations

import random
from typing import Any, Final

from caffe2_bridge.proto.caffe2_pb2 import NetDef

INPUTS: Final = ("a", "b", "c")
_UNARY: Final = ("Relu", "Tanh", "Sigmoid", "Copy", "Negative", "Scale", "Clip", "Exp")
_BINARY: Final = ("Add", "Sub", "Mul", "Sum", "Max")
_ODD: Final = ("Pow", "Sqr")
_NOT_IN_PLACE: Final = ("Copy", "Max", "Mul", "Pow", "Sin", "Sqr")
_ARGUMENTS: Final = {"Scale": ("scale", 0.7), "Pow": ("exponent", 2.0)}


def random_net(seed: int, *, odd: bool = False) -> tuple[NetDef, dict[str, str | None]]:
    """Return a net over float inputs of one shape, and the blobs whose gradients to ask for.

    ``odd`` nets have what real Caffe2 gets wrong: gradients in several steps, gradients given for blobs that are read.
    """
    draw = random.Random(seed)  # noqa: S311 - nets, no secrets
    net = NetDef(name=f"random_{seed}", external_input=INPUTS)
    blobs = list(INPUTS)
    for _ in range(draw.randint(2, 9)):
        _add_random(draw, net, blobs, odd=odd)
    made = blobs[len(INPUTS) :] or blobs
    ys = dict.fromkeys(draw.sample(made, min(len(made), draw.choice([1, 1, 2]))))
    return net, {name: f"{name}_given" if odd and draw.random() < 0.3 else None for name in ys}


def _add_random(draw: random.Random, net: NetDef, blobs: list[str], *, odd: bool) -> None:
    kinds = (*_UNARY, *_BINARY, "Sum", "Sin", "StopGradient", "Split", *(_ODD if odd else ()))
    kind = draw.choice(kinds)
    x, y, z = (draw.choice(blobs) for _ in range(3))
    fresh = f"t{len(net.op)}"
    place = draw.random()
    output = x if place < 0.15 else draw.choice(blobs) if place < 0.22 else fresh
    if kind == "StopGradient":
        net.op.add(type=kind, input=[x], output=[x])
        return
    if kind == "Split":
        net.op.add(type="Concat", input=[x, y], output=[f"{fresh}_whole", f"{fresh}_dims"]).arg.add(name="axis", i=1)
        parts = [f"{fresh}_a", f"{fresh}_b"]
        net.op.add(type="Split", input=[f"{fresh}_whole"], output=parts).arg.add(name="axis", i=1)
        if odd:
            blobs += parts
        else:  # real Caffe2 goes wrong where a part has no gradient
            net.op.add(type="Sum", input=parts, output=[fresh])
            blobs.append(fresh)
        return
    if kind == "Max" and x == y:
        y = next(name for name in INPUTS if name != x)  # real Caffe2 counts equal elements twice
    inputs = [x] if kind in (*_UNARY, *_ODD, "Sin") else [x, y, z] if kind == "Sum" else [x, y]
    if output in inputs and (kind in _NOT_IN_PLACE or inputs.index(output) or inputs.count(output) > 1):
        output = fresh
    op = net.op.add(type=kind, input=inputs, output=[output])
    if kind in _ARGUMENTS:
        name, value = _ARGUMENTS[kind]
        op.arg.add(name=name, f=value)
    if output not in blobs:
        blobs.append(output)


def text_case(net: NetDef, ys: dict[str, str | None]) -> dict[str, Any]:
    """Return the case for real Caffe2."""
    from google.protobuf import text_format

    return {"net": text_format.MessageToString(net), "ys": ys}

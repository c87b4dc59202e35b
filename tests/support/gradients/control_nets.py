"""Nets with If and While, their bodies wrapped in Do as Caffe2's helpers wrap them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef, TensorProto

Op = tuple[Any, ...]  # type, inputs, outputs, perhaps arguments
X: Final = np.array([[0.3, -0.2], [0.5, 0.9]], np.float32)
W: Final = np.array([[0.2, 0.4], [-0.3, 0.7]], np.float32)


def add(net: NetDef, op_type: str, inputs: Iterable[str], outputs: Iterable[str], **arguments: float) -> OperatorDef:
    """Add an operator."""
    op = net.op.add(type=op_type, input=inputs, output=outputs)
    for name, value in arguments.items():
        if isinstance(value, float):
            op.arg.add(name=name, f=value)
        else:
            op.arg.add(name=name, i=value)
    return op


def net_of(name: str, ops: Iterable[Op | OperatorDef]) -> NetDef:
    """Return a net."""
    net = NetDef(name=name)
    for op in ops:
        if isinstance(op, OperatorDef):
            net.op.append(op)
        else:
            add(net, op[0], op[1].split(), op[2].split(), **(op[3] if len(op) > 3 else {}))
    return net


def do_op(body: NetDef, scope: Iterable[str], workspace: str, *, loop: bool = False) -> OperatorDef:
    """Return a Do around a body; of a loop it keeps copies, and reads what it writes."""
    visible = set(scope)
    read: dict[str, None] = {}
    written: dict[str, None] = {}
    for op in body.op:
        read |= {name: None for name in op.input if name not in written}
        written |= dict.fromkeys(op.output)
    outputs = [name for name in written if name in visible]
    inputs = list(dict.fromkeys([*read, *outputs])) if loop else list(read)
    op = OperatorDef(type="Do", input=[*inputs, workspace], output=[*outputs, workspace])
    outer = list(dict.fromkeys([*inputs, *outputs]))
    op.arg.add(name="net").n.CopyFrom(body)
    op.arg.add(name="inner_blobs", strings=[name.encode() for name in outer])
    op.arg.add(name="outer_blobs_idx", ints=[[*inputs, *outputs].index(name) for name in outer])
    if loop:
        op.arg.add(name="copy_external_blobs", i=1)
    return op


def if_ops(scope: str, then: Sequence[Any], other: Sequence[Any] | None = None, name: str = "if") -> list[OperatorDef]:
    """Return the operators of an If on blob ``cond``."""
    result = []
    bodies = {}
    for kind, ops in (("then", then), ("else", other)):
        if ops is not None:
            workspace = f"{name}_{kind}_workspace"
            result.append(OperatorDef(type="CreateScope", output=[workspace]))
            bodies[f"{kind}_net"] = do_op(net_of(f"{name}_{kind}", ops), scope.split(), workspace)
    inputs = dict.fromkeys(name for op in bodies.values() for name in op.input)
    outputs = dict.fromkeys(name for op in bodies.values() for name in op.output)
    op = OperatorDef(type="If", input=["cond", *inputs], output=outputs)
    for kind, body in bodies.items():
        op.arg.add(name=kind).n.CopyFrom(NetDef(name=f"{name}_do_{kind}", op=[body]))
    return [*result, op]


def while_ops(scope: str, body: Sequence[Any], name: str = "loop") -> list[OperatorDef]:
    """Return the operators of a loop of ``n`` iterations, counted in ``i``."""
    visible = [*scope.split(), f"{name}_i", "n", "one", f"{name}_cond"]
    counter = OperatorDef(type="ConstantFill", output=[f"{name}_i"])
    counter.arg.add(name="shape", ints=[1])
    counter.arg.add(name="value", i=0)
    counter.arg.add(name="dtype", i=TensorProto.INT32)
    count = [("Copy", f"{name}_i", "before"), ("Add", "before one", f"{name}_i")]
    loop = do_op(net_of(f"{name}_body", [*body, *count]), visible, f"{name}_workspace", loop=True)
    test = net_of(f"{name}_test", [("LT", f"{name}_i n", f"{name}_cond")])
    op = OperatorDef(type="While", input=[f"{name}_cond", *loop.input], output=loop.output)
    op.arg.add(name="loop_net").n.CopyFrom(NetDef(name=f"{name}_do", op=[loop]))
    op.arg.add(name="cond_net").n.CopyFrom(test)
    scope_op = OperatorDef(type="CreateScope", output=[f"{name}_workspace"])
    return [counter, *net_of("", [("LT", f"{name}_i n", f"{name}_cond")]).op, scope_op, op]


@dataclass(frozen=True)
class Loop:
    """A loop: the blobs that it carries, its body, what makes of them ``z`` whose sum is the loss; the same in PyTorch.

    ``step`` takes the tensors by name and changes those that are carried; ``end`` gives ``z``.
    """

    carried: str
    body: Sequence[Any]
    after: Sequence[Op]
    step: Callable[[dict[str, Any]], None]
    end: Callable[[dict[str, Any]], Any]

    def net(self) -> NetDef:
        """Return the net, up to its loss ``l``."""
        ops: list[Op | OperatorDef] = [
            *while_ops(f"w {self.carried}", self.body),
            *self.after,
            ("SumElements", "z", "l"),
        ]
        return net_of("net", ops)


def _tanh(x: Any) -> Any:
    return x.tanh()


def _carry(**new: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], None]:
    def step(blobs: dict[str, Any]) -> None:
        blobs.update({name: make(blobs) for name, make in new.items()})

    return step


LOOPS: Final = {
    "one state": Loop(
        "h",
        [("Copy", "h", "was"), ("Mul", "was w", "m"), ("Tanh", "m", "h")],
        [("Mul", "h w", "z")],
        _carry(h=lambda b: _tanh(b["h"] * b["w"])),
        lambda b: b["h"] * b["w"],
    ),
    "one state, computed on local blobs": Loop(
        "h",
        [("Copy", "h", "was"), ("Mul", "was w", "m"), ("Tanh", "m", "new"), ("Copy", "new", "h")],
        [("Mul", "h w", "z")],
        _carry(h=lambda b: _tanh(b["h"] * b["w"])),
        lambda b: b["h"] * b["w"],
    ),
    "two states that change places": Loop(
        "p q",
        [("Copy", "p", "p0"), ("Copy", "q", "q0"), ("Mul", "q0 w", "p"), ("Tanh", "p0", "q")],
        [("Mul", "p q", "z")],
        _carry(p=lambda b: b["q"] * b["w"], q=lambda b: _tanh(b["p"])),
        lambda b: b["p"] * b["q"],
    ),
    "a state that only the loop reads": Loop(
        "h c",
        [("Copy", "h", "h0"), ("Copy", "c", "c0"), ("Mul", "h0 w", "m"), ("Sum", "m c0", "c"), ("Tanh", "c", "h")],
        [("Mul", "h w", "z")],
        _carry(c=lambda b: b["h"] * b["w"] + b["c"], h=lambda b: _tanh(b["h"] * b["w"] + b["c"])),
        lambda b: b["h"] * b["w"],
    ),
    "a blob that is written anew": Loop(
        "u h a",
        [("Mul", "w u", "h"), ("Copy", "a", "a0"), ("Sum", "a0 h", "a")],
        [("Mul", "h a", "z")],
        _carry(h=lambda b: b["w"] * b["u"], a=lambda b: b["a"] + b["w"] * b["u"]),
        lambda b: b["h"] * b["a"],
    ),
    "nothing to hand back": Loop(
        "h",
        [("ConstantFill", "w", "h", {"value": 2.0})],
        [("Mul", "h w", "z")],
        _carry(h=lambda b: 0 * b["w"].detach() + 2.0),
        lambda b: b["h"] * b["w"],
    ),
    "gathered rows": Loop(
        "h",
        [("Copy", "h", "h0"), ("Gather", "w rows", "m"), ("Mul", "h0 m", "h")],
        [("Tanh", "h", "z")],
        _carry(h=lambda b: b["h"] * b["w"][[1, 1]]),
        lambda b: _tanh(b["h"]),
    ),
    "an If": Loop(
        "h",
        [
            ("Copy", "h", "h0"),
            ("GT", "loop_i one", "cond"),
            ("ConstantFill", "h0", "y", {"value": 0.0}),
            *if_ops("h0 w y", [("Mul", "h0 w", "y")], [("Tanh", "h0", "y")]),
            ("Sin", "y", "h"),
        ],
        [("Mul", "h w", "z")],
        lambda b: b.update(
            i=b.get("i", -1) + 1, h=(b["h"] * b["w"] if b.get("i", -1) + 1 > 1 else _tanh(b["h"])).sin()
        ),
        lambda b: b["h"] * b["w"],
    ),
    "a loop within": Loop(
        "h",
        [
            ("Copy", "h", "s"),
            *while_ops("s w", [("Copy", "s", "s0"), ("Mul", "s0 w", "m"), ("Tanh", "m", "s")], "inner"),
            ("Sin", "s", "h"),
        ],
        [("Mul", "h w", "z")],
        lambda b: b.update(h=_times(b["n"], lambda s: _tanh(s * b["w"]), b["h"]).sin()),
        lambda b: b["h"] * b["w"],
    ),
}  # fmt: skip


def _times(count: int, function: Callable[[Any], Any], value: Any) -> Any:
    for _ in range(count):
        value = function(value)
    return value


# Branches over x and w: what makes y before, the two branches, what makes z after.
BRANCHES: Final = {
    "both branches read x": (
        [],
        [("Mul", "x w", "m"), ("Tanh", "m", "y")],
        [("Sigmoid", "x", "y")],
        [("Sqr", "y", "z")],
    ),
    "no else": ([], [("Mul", "x w", "y")], None, [("Mul", "y x", "z")]),
    "y is read and written": (
        [("Scale", "x", "y", {"scale": 1.5})],
        [("Copy", "y", "y0"), ("Mul", "y0 w", "y")],
        [("Copy", "y", "y0"), ("Tanh", "y0", "y")],
        [("Mul", "y x", "z")],
    ),
    "y is read and written, no else": (
        [("Scale", "x", "y", {"scale": 1.5})],
        [("Copy", "y", "y0"), ("Mul", "y0 w", "y")],
        None,
        [("Mul", "y x", "z")],
    ),
    "y is written anew in one branch": (
        [("Scale", "x", "y", {"scale": 1.5})],
        [("Tanh", "w", "y")],
        [("Copy", "y", "y0"), ("Mul", "y0 w", "y")],
        [("Mul", "y x", "z")],
    ),
    "an output is read inside": (
        [],
        [("Mul", "x w", "y"), ("Tanh", "y", "v")],
        [("Sum", "x w", "y"), ("Sum", "y x", "v")],
        [("Mul", "y v", "yv"), ("Mul", "yv x", "z")],
    ),
    "one gradient for two outputs": (
        [],
        [("Mul", "x w", "y"), ("Tanh", "x", "v")],
        [("Sum", "x w", "y"), ("Sin", "w", "v")],
        [("Sum", "y v", "s"), ("Copy", "s", "z")],
    ),
}  # fmt: skip


def branch_net(name: str) -> NetDef:
    """Return the net of one of BRANCHES, up to its loss ``l``."""
    before, then, other, after = BRANCHES[name]
    return net_of("net", [*before, *if_ops("x w y v", then, other), *after, ("SumElements", "z", "l")])

"""Changes of arguments, from those that real Caffe2 reads and the values that recorded cases have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from caffe2_bridge.proto.caffe2_pb2 import Argument, OperatorDef
from caffe2_bridge.schemas import operator_schema
from fuzz.exact.drawing.drawn import Drawn

_INTEGERS = (-2, -1, 0, 1, 1, 2, 3, 4, 5, 10, 2**31, 2**32, 2**53 + 1, -(2**31))
_FLOATS = (0.0, 1.0, -1.0, 0.5, 2.0, 1e-5, 1e-12, 1e5, 1e30, -0.3, float("inf"), float("nan"))
_STRINGS = (b"", b"NCHW", b"NHWC", b"NWC", b"constant", b"reflect", b"edge", b"mean", b"nonsense")


def change_argument(drawn: Drawn, random: np.random.Generator, known: Sequence[Argument]) -> Drawn:
    """Change, remove or add one argument of one operator; ``known`` are arguments of recorded cases of its type."""
    net = drawn.copy_net()
    if not net.op:
        return drawn
    op = net.op[int(random.integers(0, len(net.op)))]
    plain = [index for index, arg in enumerate(op.arg) if not arg.HasField("n")]
    roll = random.random()
    if plain and roll < 0.5:
        arg = op.arg[int(random.choice(plain))]
        _change(arg, random)
        said = f"{arg.name} of {op.type} changes"
    elif plain and roll < 0.65:
        index = int(random.choice(plain))
        said = f"{op.arg[index].name} of {op.type} is removed"
        del op.arg[index]
    else:
        added = _added(op, random, known)
        if added is None:
            return drawn
        said = f"{added} of {op.type} is added"
    return replace(drawn, net=net, trail=(*drawn.trail, said))


def _added(op: OperatorDef, random: np.random.Generator, known: Sequence[Argument]) -> str | None:
    here = {arg.name for arg in op.arg}
    schema = operator_schema(op.type)
    names = sorted((schema.arguments_read or frozenset()) - here) if schema else []
    seen = [arg for arg in known if arg.name not in here and not arg.HasField("n")]
    if seen and (not names or random.random() < 0.6):
        arg = seen[int(random.integers(0, len(seen)))]
        op.arg.add().CopyFrom(arg)
        return arg.name
    if not names:
        return None
    arg = op.arg.add(name=str(random.choice(names)))
    _fill(arg, random)
    return arg.name


def _fill(arg: Argument, random: np.random.Generator) -> None:
    match int(random.integers(0, 10)):
        case 0 | 1 | 2 | 3 | 4:
            arg.i = int(random.choice(_INTEGERS[:10]))
        case 5 | 6:
            arg.f = float(random.choice(_FLOATS))
        case 7:
            arg.s = bytes(random.choice(np.array(_STRINGS, object)))
        case 8:
            arg.ints.extend(int(v) for v in random.integers(0, 4, int(random.integers(0, 5))))
        case _:
            arg.floats.extend(float(v) for v in random.choice(_FLOATS[:6], int(random.integers(0, 5))))


def _change(arg: Argument, random: np.random.Generator) -> None:
    if arg.HasField("i"):
        nearby = (arg.i + 1, arg.i - 1, -arg.i)
        value = int(random.choice(nearby) if random.random() < 0.5 else random.choice(_INTEGERS))
        arg.i = max(-(2**63), min(2**63 - 1, value))
    elif arg.HasField("f"):
        arg.f = float(random.choice([arg.f * 2, -arg.f, arg.f + 1, *_FLOATS]))
    elif arg.HasField("s"):
        arg.s = bytes(random.choice(np.array([arg.s[:-1], arg.s + b"a", *_STRINGS], object)))
    elif arg.ints:
        _change_list(arg.ints, [int(v) for v in _INTEGERS[:10]], random)
    elif arg.floats:
        _change_list(arg.floats, list(_FLOATS), random)
    elif arg.strings:
        _change_list(arg.strings, [b"", b"a", b"zz"], random)
    else:
        _fill(arg, random)


def _change_list(values: object, pool: Sequence[object], random: np.random.Generator) -> None:
    assert hasattr(values, "append")
    assert hasattr(values, "__len__")
    index, new = int(random.integers(0, len(values))), pool[int(random.integers(0, len(pool)))]
    roll = random.random()
    if roll < 0.6:
        values[index] = new  # type: ignore[index]  # a repeated field of protobuf
    elif roll < 0.8:
        del values[index]  # type: ignore[attr-defined]  # the same
    else:
        values.append(new)

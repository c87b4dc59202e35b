"""Origins of an export's constant: the parameters and arguments of the net that it is computed from.

They are found by experiment, as an export may transpose, merge and fold parameters in any way: change parameters,
export again, and see whether the elements of the constant that are wrong change. Groups of parameters are tested and
halved (binary search), so that the number of exports grows with the logarithm of their number. For a float argument,
the constant is assumed to be linear in it: one changed export yields the slope, and so the value that explains it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from caffe2_bridge.diagnostics import Location
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.parameters import Array, Parameter
from caffe2_bridge.netdef.views import NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef

# The constant in the export of a net; None if the net cannot be exported, or the export has no such constant.
Build = Callable[[Model], Array | None]
# Arguments with a default that exports add to constants.
_ADDED: Final = {"LSTMUnit": ("forget_bias",)}
# Floats hold integers exactly up to here.
_EXACT: Final[Mapping[str, int]] = {"float32": 1 << 24, "float64": 1 << 53, "float16": 1 << 11}


@dataclass(frozen=True)
class ParameterOrigin:
    """A parameter, or an argument of an operator.

    Attributes:
        what: a description.
        name: of the parameter; empty for an argument.
        places: locations of the operators that read it.
        whole: whether a change of it alone explains every element that differs.
    """

    what: str
    name: str
    places: tuple[str, ...] = field(repr=False)
    whole: bool


def find_origins(net: Model, build: Build, right: Array, wrong: Array) -> list[ParameterOrigin]:
    """Find the parameters and arguments that explain why a constant is ``wrong`` and not ``right``.

    Args:
        net: the net.
        build: returns the constant in the export of a changed net.
        right: the constant in the net's own export.
        wrong: the constant to explain; of any shape.

    Arguments come first, as one number that explains all elements is stronger evidence; then parameters in the order of
    the net. For a sum of two parameters both are returned, as either explains it.
    """
    same = right.shape == wrong.shape
    differs = differing(right, wrong) if same else np.ones(right.shape, bool)
    found = [*_arguments(net, build, right, wrong)] if same and right.dtype.kind == "f" else []
    names = [name for name, p in net.init.parameters.items() if p.dtype.kind == "f" and p.size and p.scale is None]
    order = {name: i for i, (name, _) in enumerate(_reads(net))}
    touching = _touching(net, build, right, differs, names)
    for name, changed in sorted(touching.items(), key=lambda item: order.get(item[0], len(order))):
        whole = bool((differing(right, changed) | ~differs).all())
        places = tuple(dict.fromkeys(place for read, place in _reads(net) if read == name))
        found.append(ParameterOrigin(_describe(net, build, name, right, wrong, differs), name, places, whole))
    return found


def differing(one: Array, other: Array) -> Array:
    """Return where two arrays of one shape differ; NaN equals NaN."""
    same: Array = one == other
    if one.dtype.kind == "f" and other.dtype.kind == "f":
        same = same | (np.isnan(one) & np.isnan(other))
    return ~same


def _touching(net: Model, build: Build, right: Array, differs: Array, names: Sequence[str]) -> dict[str, Array]:
    """Find by binary search the parameters that affect a differing element, and the constant with each one changed."""
    if not names:
        return {}
    changed = build(_changed(net, names, _grown))
    if changed is not None and (changed.shape != right.shape or not (differing(right, changed) & differs).any()):
        return {}
    if len(names) == 1:
        return {} if changed is None else {names[0]: changed}
    half = len(names) // 2
    first, second = names[:half], names[half:]
    return _touching(net, build, right, differs, first) | _touching(net, build, right, differs, second)


def _arguments(net: Model, build: Build, right: Array, wrong: Array) -> Iterator[ParameterOrigin]:
    """Yield the float arguments of which another value yields exactly the wrong constant."""
    differs = differing(right, wrong)
    for path, here, op, name in _float_arguments(net.predict_net, Location(NetView(net.predict_net).name), ()):
        value = op.args.number(name, default=0.0)
        changed = build(_with_argument(net, path, name, value + 1.0))
        if changed is None or changed.shape != right.shape or not (differing(right, changed) == differs).all():
            continue
        steps = (wrong[differs].astype(np.float64) - right[differs]) / (
            changed[differs].astype(np.float64) - right[differs]
        )
        step = float(steps.mean())
        again = build(_with_argument(net, path, name, value + step))
        if again is not None and np.allclose(again, wrong, rtol=1e-5, atol=1e-6, equal_nan=True):
            yield ParameterOrigin(
                f"argument {name!r} is {_number(value + step)}, not {_number(value)}", "", (str(here),), whole=True
            )


def _float_arguments(
    net: NetDef, location: Location, path: tuple[Any, ...]
) -> Iterator[tuple[tuple[Any, ...], Location, OpView, str]]:
    for op, here, body in _ops(net, location):
        names = {arg.name for arg in op.proto.arg if arg.HasField("f")} | set(_ADDED.get(op.type, ()))
        for name in sorted(names):
            yield (*path, op.index), here, op, name
        for name, inner in body:
            yield from _float_arguments(inner, here.enter(name), (*path, op.index, name))


def _with_argument(net: Model, path: tuple[Any, ...], name: str, value: float) -> Model:
    whole = NetDef()
    whole.CopyFrom(net.predict_net)
    inner = whole
    *outer, index = path
    for at, body in zip(outer[::2], outer[1::2], strict=True):
        inner = next(arg.n for arg in inner.op[at].arg if arg.name == body)
    op = inner.op[index]
    arg = next((arg for arg in op.arg if arg.name == name), None) or op.arg.add(name=name)
    arg.f = value
    return Model(whole, net.init)


def _ops(net: NetDef, location: Location) -> Iterator[tuple[OpView, Location, list[tuple[str, NetDef]]]]:
    """Yield operators with their locations and bodies."""
    for op in NetView(net).ops:
        here = Location(location.net, op.index, op.type, op.name, location.path)
        yield op, here, [(arg.name, arg.n) for arg in op.proto.arg if arg.HasField("n")]


def _reads(net: Model) -> list[tuple[str, str]]:
    """Return blobs and the locations of their readers, without operators with bodies, in the order of the net."""
    found: list[tuple[str, str]] = []

    def walk(inner: NetDef, location: Location) -> None:
        for op, here, bodies in _ops(inner, location):
            if bodies:
                for name, body in bodies:
                    if not name.startswith("backward"):
                        walk(body, here.enter(name))
            else:
                found.extend((name, str(here)) for name in op.inputs)

    walk(net.predict_net, Location(NetView(net.predict_net).name))
    return found


def _changed(net: Model, names: Sequence[str], change: Callable[[Array], Array]) -> Model:
    def made(parameter: Parameter) -> Parameter:
        return dataclasses.replace(parameter, make=lambda: change(parameter.load()))

    parameters = dict(net.init.parameters) | {name: made(net.init.parameters[name]) for name in names}
    return Model(net.predict_net, dataclasses.replace(net.init, parameters=MappingProxyType(parameters)))


def _grown(array: Array) -> Array:
    """Change every element and keep its sign, so that variances remain valid."""
    grown: Array = (array + np.where(array < 0, -1, 1) * (1 + np.abs(array))).astype(array.dtype)
    return grown


def _numbered(array: Array) -> Array:
    return np.arange(1, array.size + 1, dtype=array.dtype).reshape(array.shape)


def _describe(net: Model, build: Build, name: str, right: Array, wrong: Array, differs: Array) -> str:
    """Return how many elements differ, and the first: its index in the parameter if the constant permutes that."""
    parameter = net.init.parameters[name]
    if right.shape != wrong.shape:
        return f"parameter {name!r} has shape {list(wrong.shape)}, not {list(right.shape)}"
    many = f"{int(differs.sum())} of {differs.size} elements differ"
    if parameter.size >= _EXACT.get(parameter.dtype.name, 0) or not differs.any():
        return f"parameter {name!r}: {many}"
    numbered = build(_changed(net, [name], _numbered))
    flat = parameter.load().reshape(-1)
    at = tuple(int(i) for i in np.argwhere(differs)[0])
    if numbered is None or numbered.shape != right.shape:
        return f"parameter {name!r}: {many}"
    code = float(numbered[at])
    if not code.is_integer() or not 1 <= code <= flat.size or flat[int(code) - 1] != right[at]:
        return f"parameter {name!r}, merged with others: {many}"
    index = [int(i) for i in np.unravel_index(int(code) - 1, parameter.shape)]
    return f"parameter {name!r}: {many}; {index} is {_number(wrong[at])}, not {_number(right[at])}"


def _number(value: Any) -> str:
    return f"{float(value):.6g}"

"""ATen: a function of PyTorch by name, whose operands are its tensors and whose arguments are its other parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import torch

from caffe2_bridge.netdef.views import Args
from caffe2_bridge.proto.caffe2_pb2 import Argument
from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value

family = Family("aten")

# Names that PyTorch has dropped since version 1.9, the last with Caffe2, and functions that have changed since.
_CASTS = {
    "_cast_Byte": torch.uint8, "_cast_Char": torch.int8, "_cast_Short": torch.int16, "_cast_Int": torch.int32,
    "_cast_Long": torch.int64, "_cast_Double": torch.float64, "_cast_Float": torch.float32,
}  # fmt: skip


def _floor_divide(op: Op) -> torch.Tensor:
    """Round towards zero, as older releases did."""
    x = op.tensor(0)
    other = op.tensor(1) if op.has(1) else _number(op, "other")
    return torch.div(x, other, rounding_mode="trunc")


def _number(op: Op, name: str) -> float | int:
    raw = op.args.raw(name)
    if raw is None:
        op.refuse(f"argument {name!r} is missing")
    return raw.f if raw.HasField("f") else raw.i


def _clamp(op: Op) -> torch.Tensor:
    """Cut the bound to the type of the operand, as older releases did."""
    x, name = op.tensor(0), op.args.text("operator").removeprefix("clamp_")
    bound = _number(op, name)
    bound = bound if x.is_floating_point() else int(bound)
    return x.clamp(min=bound) if name == "min" else x.clamp(max=bound)


def _bitwise(op: Op) -> torch.Tensor:
    """Return the result in the type of the first operand, as older releases did."""
    name = op.args.text("operator").strip("_").removeprefix("bitwise_")
    x = op.tensor(0)
    other = op.tensor(1) if op.has(1) else torch.tensor(_number(op, "other"), dtype=x.dtype)
    return getattr(torch, f"bitwise_{name}")(x, other).to(x.dtype)  # type: ignore[no-any-return] # by name


def _pairwise_distance(op: Op) -> torch.Tensor:
    """Reduce dim 1, whatever the rank, as older releases did."""
    p, eps = op.args.number("p", default=2.0), op.args.number("eps", default=1e-6)
    keep = op.args.flag("keepdim", default=False)
    powers: torch.Tensor = torch.linalg.vector_norm(op.tensor(0) - op.tensor(1) + eps, p, 1, keepdim=keep)
    return powers


_CHANGED: Final[Mapping[str, Callable[[Op], torch.Tensor]]] = {
    "floor_divide": _floor_divide, "clamp_min": _clamp, "clamp_max": _clamp, "__and__": _bitwise,
    "__or__": _bitwise, "__xor__": _bitwise, "bitwise_and": _bitwise, "bitwise_or": _bitwise,
    "bitwise_xor": _bitwise, "pairwise_distance": _pairwise_distance,
}  # fmt: skip


@family.converts("ATen")
def aten(op: Op) -> Value | tuple[Value, ...]:
    name = op.args.text("operator")
    overload = op.args.text("overload_name", default="")
    if name in _CASTS:
        op.args.ignore("non_blocking")
        return op.tensor(0).to(_CASTS[name])
    packet = getattr(torch.ops.aten, name, None)
    if packet is None:
        op.refuse(f"PyTorch has no function {name!r}")
    if name in _CHANGED:
        return _CHANGED[name](op)
    if name.startswith("upsample_") and 1 in op.args.integers("output_size", default=()):
        op.refuse("PyTorch resizes to one pixel in another way than version 1.9 did")
    given = {arg for arg in op.args if arg not in ("operator", "overload_name")}
    for variant in _variants(packet, overload):
        arguments = _arguments(op, variant, given)
        if arguments is not None:
            return _outputs(op, variant(**arguments))
    return op.refuse(f"PyTorch's {name!r} does not take {op.count} tensors and the arguments {sorted(given)}")


def _variants(packet: Any, overload: str) -> Iterator[Any]:
    """Yield the overloads that return new tensors, that of the given name first."""
    names = [name for name in packet.overloads() if "out" not in name.split("_") and "names" not in name.lower()]
    for name in sorted(names, key=lambda name: (name != overload, name != "default")):
        yield getattr(packet, name)


def _arguments(op: Op, variant: Any, given: set[str]) -> dict[str, Any] | None:
    """Return the arguments of an overload; None if operands or arguments do not fit it."""
    tensors = list(op.tensors)
    found: dict[str, Any] = {}
    for parameter in variant._schema.arguments:  # noqa: SLF001 - the only way to the types of an overload
        kind, name = str(parameter.type), parameter.name
        if "Tensor" in kind:
            if "List[" in kind:
                found[name], tensors = tensors, []
            elif tensors:
                found[name] = tensors.pop(0)
            elif not kind.startswith("Optional"):
                return None
        elif name in given:
            value = _value(op.args, name, kind)
            if value is None:
                return None
            found[name] = value
        elif not parameter.has_default_value() and not kind.startswith("Optional"):
            return None
    return found if not tensors and given <= found.keys() else None


# How an argument is read, by what the type of a parameter has in its name; the first that fits.
_READ: Final[Mapping[str, Callable[[Argument], Any]]] = {
    "List[int": lambda arg: [arg.i] if arg.HasField("i") else list(arg.ints),
    "List[SymInt": lambda arg: [arg.i] if arg.HasField("i") else list(arg.ints),
    "List[float": lambda arg: list(arg.floats),
    "bool": lambda arg: bool(arg.i),
    "str": lambda arg: arg.s.decode() if arg.HasField("s") else None,
    "number": lambda arg: arg.f if arg.HasField("f") else arg.i,
    "Scalar": lambda arg: arg.f if arg.HasField("f") else arg.i,
    "float": lambda arg: arg.f if arg.HasField("f") else arg.i,
    "int": lambda arg: arg.i if arg.HasField("i") else None,
    "SymInt": lambda arg: arg.i if arg.HasField("i") else None,
}


def _value(args: Args, name: str, kind: str) -> Any:
    """Return an argument of the type that a parameter has; None if it has another one."""
    raw = args.raw(name)
    assert raw is not None
    return next((read(raw) for part, read in _READ.items() if part in kind), None)


def _outputs(op: Op, result: Any) -> Value | tuple[Value, ...]:
    values = tuple(result) if isinstance(result, tuple | list) else (result,)
    if len(values) < op.output_count:
        op.refuse(f"there are {len(values)} results for {op.output_count} outputs")
    return tuple(v if isinstance(v, torch.Tensor) else torch.as_tensor(v) for v in values)

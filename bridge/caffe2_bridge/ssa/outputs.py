"""The outputs of a net: those that are asked for, those that it declares, or those that nothing in it reads."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from shlex import quote

from caffe2_bridge.diagnostics import Diagnostic, Location, Severity
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.ssa.effects import NetEffects, analyse
from caffe2_bridge.ssa.objects import final_objects, object_outputs


def net_outputs(net: NetDef, asked: Iterable[str] | None = None) -> tuple[str, ...]:
    """Return the outputs of a net, without duplicates.

    Those that are asked for; without a request those that the net declares; without a declaration the blobs that
    operators list as outputs and whose last value no operator, and no body, reads. Objects are only among those that
    are asked for.
    """
    if asked is not None:
        return tuple(dict.fromkeys(asked))
    return declared_outputs(net) or unread_outputs(analyse(net, Location(net.name or "net"), []))


def declared_outputs(net: NetDef) -> tuple[str, ...]:
    """Return the outputs that a net declares, without duplicates and without objects, which no model can output."""
    objects = final_objects(net)
    return tuple(name for name in dict.fromkeys(net.external_output) if name not in objects)


def omitted_outputs(net: NetDef, declared: Collection[str] | None = None) -> list[Diagnostic]:
    """Return a warning for each output that is left out of the :func:`declared_outputs` because it is an object.

    ``declared`` are these outputs, where they are known already.
    """
    kept = declared_outputs(net) if declared is None else declared
    location, others = Location(net.name or "net"), outputs_hint(kept)
    return [
        Diagnostic(
            "object-output",
            f"output {name!r} is left out, because it is an object and not a tensor",
            location,
            Severity.WARNING,
            f"remove {name!r} from the net's external_output" + (f", or choose the others: {others}" if kept else ""),
        )
        for name in dict.fromkeys(net.external_output)
        if name not in kept
    ]


def outputs_hint(names: Collection[str]) -> str:
    """Return what to type to choose outputs, on the command line and in Python."""
    return f"{' '.join(f'--output {quote(name)}' for name in names)}, or outputs={list(names)!r}"


def unread_outputs(effects: NetEffects) -> tuple[str, ...]:
    """Return blobs that operators list as outputs and whose last value is a tensor that no operator or body reads."""
    is_output: dict[str, bool] = {}
    read: set[str] = set()
    for proto, op in zip(reversed(effects.net.op), reversed(effects.ops), strict=True):
        objects = object_outputs(proto)
        for name in proto.output:
            is_output.setdefault(name, name not in read and name not in objects)
        read.update((*op.reads, *op.soft))
    listed = dict.fromkeys(name for op in effects.net.op for name in op.output if name)
    return tuple(name for name in listed if is_output[name])


def needed_operators(net: NetDef, outputs: Iterable[str]) -> list[int]:
    """Return the indices of the operators that compute blobs, in the net's order; a name stands for all its values."""
    effects = analyse(net, Location(net.name or "net"), [])
    wanted = set(outputs)
    needed: list[int] = []
    for index in reversed(range(len(net.op))):
        op = effects.ops[index]
        if not wanted.isdisjoint((*net.op[index].output, *op.changed, *op.mutates)):
            needed.append(index)
            wanted.update(op.used)
    return needed[::-1]

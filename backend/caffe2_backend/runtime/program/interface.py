"""What a net reads and writes: the blobs that a run must be given, may be given, and returns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from caffe2_backend.runtime.values import Opaque
from caffe2_bridge.control import RecurrentNetwork, control_of
from caffe2_bridge.diagnostics import Location
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.init.random_operators import draws_numbers
from caffe2_bridge.netdef.views import NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.ssa.effects import NetEffects, analyse
from caffe2_bridge.ssa.objects import makes_object
from caffe2_bridge.ssa.outputs import declared_outputs, unread_outputs
from caffe2_bridge.training import find_losses

# Operators whose last output is a loss or an accuracy.
_FIGURES: Final = frozenset(
    {"Accuracy", "AveragedLoss", "MultiClassAccuracy", "SoftmaxWithLoss", "SpatialSoftmaxWithLoss"}
)


@dataclass(frozen=True)
class NetInterface:
    """The blobs of a net, seen from outside.

    Attributes:
        needs: blobs that it reads in any case, or passes on, and neither makes nor gets from its init net.
        may_need: blobs that it reads depending on the branches taken.
        writes: blobs that it writes.
        made: parameters, and blobs that the rest of the init net makes.
        state: blobs that it reads and overwrites, which its next run reads again.
        tables: those of which an operator updates some rows or elements only, and what other parts of the net update
            that this one reads.
        weights: those by which an operator multiplies a table that it updates: where they are 1, it changes rows only.
        required: blobs that every run returns.
        optional: blobs that a run returns if they are tensors: those that no operator reads, of a net that declares no
            outputs, and in a workspace the losses and accuracies, which are asked for after most runs.
        scopes: objects that it makes.
        undeclared: by blob, the indices of the operators whose bodies write it though no operator lists it as an
            output: real Caffe2 leaves such a blob in the workspace, too.
        rewritten: blobs that an operator updates in place: a converted net may compute an earlier value of one under
            its name, and the last under another.
    """

    needs: tuple[str, ...]
    may_need: tuple[str, ...]
    writes: tuple[str, ...]
    made: frozenset[str]
    state: tuple[str, ...]
    tables: tuple[str, ...]
    weights: frozenset[str]
    required: tuple[str, ...]
    optional: tuple[str, ...]
    scopes: Mapping[str, Opaque]
    undeclared: Mapping[str, list[int]]
    rewritten: frozenset[str]

    @classmethod
    def of(
        cls,
        net: NetDef,
        init: InitNet,
        *,
        keep: Collection[str] = (),
        state: bool = True,
        updated: Collection[str] = (),
    ) -> NetInterface:
        """Analyze a net.

        Args:
            net: the net.
            init: its parameters.
            keep: blobs that every run must return, in addition to the declared outputs.
            state: whether every run returns the blobs that the net reads and overwrites.
            updated: of a part of a net, the blobs that the other parts may update in place.
        """
        view = NetView(net)
        effects = analyse(net, Location(view.name), [])
        made = {*init.parameters, *(name for op in init.rest for name in op.outputs)}
        scopes = {name: Opaque(op.proto) for op in view.ops for name in _remade(op)}
        own = {*scopes, *made}
        needs = tuple(name for name in effects.exposed if name not in own)
        if not state:  # otherwise they stay in the workspace
            needs = tuple(dict.fromkeys((*needs, *_passed_on(net, {*own, *effects.may}))))
        soft = {**effects.soft, **effects.through}
        may_need = tuple(name for name in soft if name not in effects.exposed and name not in own)
        left = _left(view)
        writes = tuple(name for name in effects.may if name not in scopes and name not in left)
        written = frozenset(writes)
        known = written if state else {*written, *needs, *made}
        declared = [name for name in declared_outputs(net) if name in known]
        required = tuple(dict.fromkeys([*declared, *(name for name in keep if name in written)]))
        unread = [name for name in unread_outputs(effects) if name in written]
        optional = [*(() if declared else unread), *(_figures(net, written) if state else ())]
        states = tuple(name for name in (*needs, *may_need) if name in written) if state else ()
        rows = {*_rows_updated(net), *updated}
        return cls(
            needs=needs,
            may_need=may_need,
            writes=writes,
            made=frozenset(made),
            state=states,
            tables=tuple(name for name in (*needs, *may_need) if name in rows),
            weights=frozenset(
                op.inputs[1] for op in view.ops if op.type == "ScatterWeightedSum" and len(op.inputs) > 1
            ),
            required=required,
            optional=tuple(name for name in dict.fromkeys(optional) if name not in required),
            scopes=scopes,
            undeclared=_undeclared(view, effects),
            rewritten=frozenset(name for effect in effects.ops for name in (*effect.updates, *effect.merges)),
        )


def _passed_on(net: NetDef, made: Collection[str]) -> list[str]:
    """Return the inputs that are outputs as they are."""
    inputs = set(net.external_input).difference(made)
    return [name for name in declared_outputs(net) if name in inputs]


def _remade(op: OpView) -> tuple[str, ...]:
    """Return the objects that an operator makes and would make again.

    The step workspaces of a RecurrentNetwork are among them: a gradient operator of another net runs the steps again,
    from the blobs that they read, which it reads too. Random steps would draw other numbers.
    """
    if makes_object(op.proto):
        return op.outputs[:1]
    control = control_of(op)
    if not isinstance(control, RecurrentNetwork) or draws_numbers(op):
        return ()
    return control.objects


def _left(view: NetView) -> set[str]:
    """Return the blobs that are listed as outputs and left as they were: masks of a Dropout that drops nothing."""
    masks, written = set[str](), set[str]()
    for op in view.ops:
        # A wrong argument is reported by the conversion.
        kept = op.type == "Dropout" and not draws_numbers(op)
        written.update(op.outputs[:1] if kept else op.outputs)
        masks.update(op.outputs[1:] if kept else ())
    return masks - written


def _figures(net: NetDef, written: Collection[str]) -> list[str]:
    """Return the losses and accuracies of a net."""
    measured = [op.output[-1] for op in net.op if op.type in _FIGURES and op.output]
    return [name for name in (*find_losses(net), *measured) if name in written]


def updated_in_place(net: NetDef, effects: NetEffects) -> frozenset[str]:
    """Return the blobs that runs of a net's parts may update in place: its states, if a step updates rows of one."""
    return frozenset(effects.found).intersection(effects.may) if _rows_updated(net) else frozenset()


def _rows_updated(net: NetDef) -> set[str]:
    """Return the blobs of which an operator updates some rows in place."""
    ops = [op for op in net.op if "Sparse" in op.type or op.type.startswith("Scatter")]
    return {name for op in ops for name in op.output if name in op.input}


def _undeclared(view: NetView, effects: NetEffects) -> dict[str, list[int]]:
    listed = {name for op in view.ops for name in op.outputs}
    found: dict[str, list[int]] = {}
    for op, effect in zip(view.ops, effects.ops, strict=True):
        for name in dict.fromkeys(effect.changed):
            if name not in listed:
                found.setdefault(name, []).append(op.index)
    return found

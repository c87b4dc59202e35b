"""Run the recurrent nets of a program as recurrent layers of PyTorch, where they are proved to be equal."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import torch

from caffe2_bridge.cells.match import Cell, NoMatchError, match_cells
from caffe2_bridge.cells.projection import Hoisted, find_projection
from caffe2_bridge.control import RecurrentNetwork
from caffe2_bridge.diagnostics import Location
from caffe2_bridge.netdef.unread_arguments import unread_arguments
from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.ssa.effects import NetEffects, analyse
from caffe2_torch.evaluation.context import Context, is_exporting
from caffe2_torch.evaluation.program import Blobs, Program, ProgramStep
from caffe2_torch.ops.control_flow.recurrent import SCHEDULED
from caffe2_torch.recurrent.layer import Layer, MisfitError
from caffe2_torch.recurrent.step_equations import read_step


@dataclass
class LayersStep(ProgramStep):
    """A RecurrentNetwork as layers.

    Attributes:
        layers: in order; later ones read rows of those before.
        before: the projections of the input that the layers make themselves.
    """

    layers: tuple[Layer, ...] = ()
    before: tuple[ProgramStep, ...] = ()

    def run(self, blobs: Blobs, context: Context) -> None:
        """Run the layers; where the shapes of the blobs are not those of layers, run the step net instead."""
        try:
            if is_exporting():
                self._require_static_steps(blobs)
            self._run_layers(blobs)
        except MisfitError:
            for step in self.before:
                step.run(blobs, context)
            super().run(blobs, context)

    def _require_static_steps(self, blobs: Blobs) -> None:
        """Raise MisfitError where T is a symbol: what PyTorch's layers export for it holds for one T alone."""
        sequence = blobs.get(self.layers[0].source.sequences[0])
        if not isinstance(sequence, torch.Tensor) or not isinstance(sequence.shape[0], int):
            raise MisfitError

    def _run_layers(self, blobs: Blobs) -> None:
        control = self.control
        assert isinstance(control, RecurrentNetwork)
        outputs = {layer.cell.output for layer in self.layers}
        given = {name: blobs.get(name) for layer in self.layers for name in layer.blobs - outputs}
        tensors = {name: value for name, value in given.items() if isinstance(value, torch.Tensor)}
        if len(tensors) < len(given):
            raise MisfitError
        made: dict[str, torch.Tensor] = {}
        for layer in self.layers:
            rows, finals = layer.run(tensors)
            tensors[layer.cell.output] = rows
            states = [control.spec.states[i].blob for i in layer.cell.states]
            for alias in control.spec.aliases:
                if alias.source in states and alias.offset == -1:
                    made[alias.blob] = finals[states.index(alias.source)]
                elif alias.source == states[0] and alias.offset == 1:
                    made[alias.blob] = rows
        blobs.update(made)
        blobs.update(dict.fromkeys(control.objects))


def fuse_cells(program: Program, net: NetDef, ranks: Mapping[str, int], outputs: Collection[str]) -> Program:
    """Return a program that computes the outputs, and runs recurrent nets as layers where it can.

    Args:
        program: that of the net, which it leaves as it is.
        net: the net.
        ranks: of the parameters.
        outputs: the blobs that are read after a run.
    """
    effects = analyse(net, Location(net.name or "predict"), [])
    steps, dropped = list(program.steps), set[int]()
    kept: dict[int, set[str]] = {}
    for index, step in enumerate(program.steps):
        if isinstance(step.control, RecurrentNetwork):
            try:
                fused, before = _fuse(step, index, program, effects, ranks, outputs)
            except NoMatchError:
                continue
            steps[index], kept[index] = fused, {name for layer in fused.layers for name in layer.blobs}
            dropped |= before
    if not kept:
        return program
    last = {name: i for i, op in enumerate(effects.ops) for name in (*op.touched, *kept.get(i, ()))}
    remaining = [
        replace(step, last_reads=tuple(name for name, at in last.items() if at == i))
        for i, step in enumerate(steps)
        if i not in dropped
    ]
    return replace(program, steps=tuple(remaining))


def _fuse(
    step: ProgramStep,
    index: int,
    program: Program,
    effects: NetEffects,
    ranks: Mapping[str, int],
    outputs: Collection[str],
) -> tuple[LayersStep, set[int]]:
    """Return a recurrent net as layers, with the indices of the projections that nothing else reads."""
    control = step.control
    assert isinstance(control, RecurrentNetwork)
    spec = control.spec
    step.view.args.ignore(*control.arguments, *SCHEDULED)
    if unread_arguments(step.view).unsupported:
        raise NoMatchError("an argument is not supported")
    cells = match_cells(read_step(spec, ranks))
    read = {name for op in effects.ops[index + 1 :] for name in op.touched} | {*outputs}
    _require_outputs(control, cells, read)
    made: set[int] = set()

    def hoisted(blob: str) -> Hoisted[str] | None:
        found = _projection(program, effects, index, blob)
        if found is None:
            return None
        made.add(found)
        x, matrix, bias = program.steps[found].view.inputs
        return Hoisted(x, matrix, bias)

    sequences = {link.internal: link.external for link in spec.reads()}
    lasts = {alias.source for alias in spec.aliases if alias.offset == -1 and alias.blob in read}
    layers = []
    for cell in cells:
        states = [spec.states[i] for i in cell.states]
        initial = tuple(step.view.inputs[state.initial] for state in states)
        keeps = any(state.blob in lasts for state in states[1:])
        layers.append(Layer(cell, find_projection(cell, sequences, hoisted), initial, keeps))
    others = {name for i, op in enumerate(effects.ops) if i not in (*made, index) for name in op.used} | {*outputs}
    dropped = {i for i in made if others.isdisjoint(program.steps[i].view.outputs)}
    before = tuple(program.steps[i] for i in sorted(dropped))
    return _layers_step(step, tuple(layers), before), dropped


def _layers_step(step: ProgramStep, layers: tuple[Layer, ...], before: tuple[ProgramStep, ...]) -> LayersStep:
    return LayersStep(step.view, step.function, step.location, step.control, step.bodies, layers=layers, before=before)


def _require_outputs(control: RecurrentNetwork, cells: tuple[Cell[str], ...], read: Collection[str]) -> None:
    """Raise NoMatchError where more is read than layers return: rows of h, and the last row of every state."""
    spec = control.spec
    hidden = {spec.states[cell.states[0]].blob for cell in cells}
    returned = {a.blob for a in spec.aliases if a.offset == -1 or (a.offset == 1 and a.source in hidden)}
    for name in {*control.creates} - returned:
        if name in read:
            raise NoMatchError(f"{name!r} is read, which PyTorch's layers do not return")
    if any(link.external in control.creates for link in spec.reads() if link.external not in control.states):
        raise NoMatchError("the step net reads rows of a result")


def _projection(program: Program, effects: NetEffects, index: int, blob: str) -> int | None:
    """Return the index of the FC that projects the input of the operator ``index``; None where there is none."""
    for i in range(index - 1, -1, -1):
        if blob not in effects.ops[i].changed:
            continue
        view = program.steps[i].view
        changed = {name for op in effects.ops[i:index] for name in op.changed}
        is_product = _is_projection(view) and changed.isdisjoint(view.inputs)
        return i if is_product else None
    return None


def _is_projection(view: OpView) -> bool:
    """Whether an operator multiplies rows [T, N, I] by a matrix."""
    return view.type == "FC" and view.args.integer("axis", 1) == 2 and view.args.integer("axis_w", 1) == 1

"""Training steps to compare: models of one step, and cases that start from the reference's parameters.

A step reads and overwrites its parameters. To compare step by step what runtimes compute, and not how their rounding
errors add up, every side takes step i from the parameters that the reference has after step i - 1. So the parameters
are inputs of a case, and their new values are outputs under names of their own, ``<parameter>_updated``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import onnx

from caffe2_backend.training.batches import make_batches
from caffe2_bridge.control import all_names
from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.model import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.training import training_net, training_outputs
from caffe2_frontend.interop.metadata.training import read_training_metadata
from caffe2_validation.forms import known_inputs
from caffe2_validation.inputs.specs import Case
from caffe2_validation.options import Described, ValidationOptions
from caffe2_validation.runtimes import AnyModel, Value
from caffe2_validation.sides import Side

_SUFFIX: Final = "_updated"
_LISTED: Final = 4


@dataclass(frozen=True)
class TrainingStep:
    """One step of a training net or model.

    Attributes:
        model: the model, whose updated blobs are inputs, and outputs under other names.
        initial: the values of the updated blobs before the first step.
        updated: for each of them, the output that is its new value.
        losses: the outputs that gradients start from.
    """

    model: AnyModel = field(repr=False)
    initial: Mapping[str, Value] = field(repr=False)
    updated: Mapping[str, str]
    losses: tuple[str, ...]

    @property
    def described(self) -> Described:
        """Types and shapes of the updated blobs."""
        return {name: (np.asarray(value).dtype, np.asarray(value).shape) for name, value in self.initial.items()}

    def starting_with(self, given: Mapping[str, Any]) -> TrainingStep:
        """Return the step that starts with those of these values that are of updated blobs."""
        own = {name: np.asarray(given[name]) for name in self.initial if name in given}
        return replace(self, initial={**self.initial, **own}) if own else self


def step_options(options: ValidationOptions) -> ValidationOptions:
    """Return the options for a step: gradients are small, so that absolute tolerances are relative to their tensors.

    Tolerances that the caller chose stay.
    """
    if options.rtol is not None or options.atol is not None:
        return options
    scaled = {dtype: replace(allowed, scaled=True) for dtype, allowed in options.tolerances.items()}
    return replace(options, tolerances=scaled)


def training_step(model: AnyModel) -> TrainingStep | None:
    """Return one step of a training model; None if a model does not train, or its parameters have no values."""
    return _net_step(model) if isinstance(model, Model) else _onnx_step(model)


def _net_step(model: Model) -> TrainingStep | None:
    """Declare losses, metrics, gradients and, as copies, the updated blobs as the outputs of a net."""
    parameters = model.init.parameters
    filled = {*parameters, *(name for op in model.init.rest for name in op.outputs)}
    found = training_net(model.predict_net, filled)
    if found is None or any(name not in parameters or parameters[name].scale is not None for name in found.updated):
        return None
    net = NetDef()
    net.CopyFrom(model.predict_net)
    outputs = [*training_outputs(net, found), *found.gradients]
    updated = {name: _fresh(name, all_names(net)) for name in found.updated}
    net.op.extend(OperatorDef(type="Copy", input=[name], output=[new]) for name, new in updated.items())
    del net.external_output[:]
    net.external_output.extend(dict.fromkeys([*outputs, *updated.values()]))
    initial = {name: parameters[name].load() for name in found.updated}
    step = Model(net, model.init.with_inputs(found.updated), model.source)
    return TrainingStep(step, initial, updated, found.losses)


def _onnx_step(model: onnx.ModelProto) -> TrainingStep | None:
    """Make plain inputs of inputs with defaults, and rename the outputs that feed them."""
    found = read_training_metadata(model)
    if found is None:
        return None
    step = onnx.ModelProto()
    step.CopyFrom(model)
    graph = step.graph
    initial = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer if t.name in found.updates}
    if initial.keys() != found.updates.keys():
        return None
    kept = [tensor for tensor in graph.initializer if tensor.name not in initial]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    names = {name for node in graph.node for name in node.output}.union(value.name for value in graph.input)
    updated = {name: _fresh(name, names) for name in found.updates}
    renamed = {found.updates[name]: new for name, new in updated.items()}
    for value in graph.output:
        if value.name in renamed:
            graph.node.append(onnx.NodeProto(op_type="Identity", input=[value.name], output=[renamed[value.name]]))
            value.name = renamed[value.name]
    return TrainingStep(step, initial, updated, found.losses)


def _fresh(name: str, taken: Any) -> str:
    new = name + _SUFFIX
    while new in taken:
        new += "_"
    return new


def given_batches(model: AnyModel, inputs: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the given inputs of each step: several for arrays ``STEP/INPUT``. Raises RunError if some are missing."""
    inputs_of, parameters = known_inputs(model)
    names = (*inputs_of, *parameters)
    if not all(key.partition("/")[0].isdigit() for key in inputs) or not names or set(inputs).intersection(names):
        return [inputs]
    wanted = [name for name in names if any(key.partition("/")[2] == name for key in inputs)]
    batches = make_batches(inputs, wanted, None, {}, names)
    return [batches.batch(step) for step in range(len(batches))]


def step_cases(step: TrainingStep, reference: Side, batches: Sequence[Mapping[str, Any]], count: int) -> list[Case]:
    """Return the cases of a number of steps, each from the reference's parameters; fewer if a step fails there."""
    cases: list[Case] = []
    state = dict(step.initial)
    for index in range(count):
        inputs = {**batches[index % len(batches)], **state}
        cases.append(Case(f"step {index + 1}", inputs))
        if index + 1 < count:
            try:
                state = _next_state(step, reference, inputs)
            except BridgeError:  # the comparison reports it
                break
    return cases


def _next_state(step: TrainingStep, side: Side, inputs: Mapping[str, Any]) -> dict[str, Value]:
    found = side.runtime.load(side.model).run(inputs, list(step.updated.values()))
    return {name: found.get(output, inputs[name]) for name, output in step.updated.items()}


def free_losses(step: TrainingStep, side: Side, batches: Sequence[Mapping[str, Any]], count: int) -> list[float]:
    """Return the first loss of each step on a side that keeps its own parameters. Raises BridgeError if one fails."""
    state, losses = dict(step.initial), []
    loaded = side.runtime.load(side.model)
    wanted = [*step.losses[:1], *step.updated.values()]
    for index in range(count):
        found = loaded.run({**batches[index % len(batches)], **state}, wanted)
        state = {name: found[output] for name, output in step.updated.items()}
        losses += [float(np.mean(np.asarray(found[name]), dtype=np.float64)) for name in step.losses[:1]]
    return losses


def training_notes(
    step: TrainingStep, sides: Sequence[Side], batches: Sequence[Mapping[str, Any]], cases: Sequence[Case]
) -> list[str]:
    """Return what readers of the report should know: how steps are compared, and losses of sides that train alone."""
    shown = ", ".join(map(repr, list(step.updated)[:_LISTED])) + (", ..." if len(step.updated) > _LISTED else "")
    blobs = f"{len(step.updated)} updated blobs ({shown}) are compared as NAME{_SUFFIX}"
    notes = [f"training steps: {len(cases)}, each from the parameters of {sides[0].label}; {blobs}"]
    for side in sides if step.losses else ():
        try:
            losses = free_losses(step, side, batches, len(cases))
        except (BridgeError, KeyError):  # the comparison reports why a side cannot run
            continue
        listed = ", ".join(f"{value:.6g}" for value in losses)
        notes.append(f"{step.losses[0]} of {side.label} with its own parameters: {listed}")
    return notes

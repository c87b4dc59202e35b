"""Synthesis: a net runs operator by operator, and each missing operand is made when an operator reads it.

The net runs in this project's own workspace. Before an operator runs, the operands that do not exist are made: their
shapes follow from the operator and from the operands that exist. So weights fit whatever size the image has at that
point, and inputs fit the weights. A synthesized weight is rescaled after its operator ran, so that the results have
unit variance (or the variance that their readers demand) at any depth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from caffe2_backend.runtime import Int8Tensor, SessionOptions, Workspace
from caffe2_backend.runtime.values import Array
from caffe2_bridge.control import If, RecurrentNetwork, control_of, nets_run_by
from caffe2_bridge.diagnostics import BridgeError, Location, RunError
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.views import NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_validation.inputs.assumptions import Assumptions, Shape, Value
from caffe2_validation.inputs.operands import input_shape
from caffe2_validation.inputs.random_values import Scene, draw
from caffe2_validation.inputs.weights import (
    CONVOLUTIONS,
    LAYERS,
    Demand,
    Demands,
    is_weight,
    quantized_weight,
    require_room,
    weight_shape,
    weight_values,
)
from caffe2_validation.roles import Role, find_roles, op_roles

_BODIES: Final = frozenset(["RecurrentNetwork", "While", "Do"])
_WINDOWS: Final = frozenset({
    "Conv", "ConvRelu", "MaxPool", "AveragePool", "LpPool",
    "Int8Conv", "Int8ConvRelu", "Int8MaxPool", "Int8AveragePool",
})  # fmt: skip
_PRODUCTS: Final = CONVOLUTIONS | LAYERS | {"MatMul"}


@dataclass(frozen=True)
class Synthesized:
    """The result of a synthesis: ``inputs`` and ``weights``, without those that were given."""

    inputs: Mapping[str, Value] = field(default_factory=dict, repr=False)
    weights: Mapping[str, Value] = field(default_factory=dict, repr=False)


class StuckError(RunError):
    """An operator did not run; ``completed`` is the number of operators that did, ``made`` what was synthesized."""

    def __init__(self, completed: int, reason: str, made: Synthesized) -> None:
        super().__init__(reason)
        self.completed = completed
        self.made = made


def synthesize_inputs(model: Model, assumptions: Assumptions) -> Synthesized:
    """Run the model, and synthesize the operands that no operator writes and nobody gives.

    Raises StuckError if an operator does not run.
    """
    return _Synthesis(model, assumptions).run()


class _Synthesis:
    def __init__(self, model: Model, assumptions: Assumptions) -> None:
        self._model, self._assumptions = model, assumptions
        self._random = np.random.default_rng(assumptions.seed)
        self._workspace = Workspace.isolated(options=SessionOptions(threads=1, spinning=False))
        self._roles = find_roles(None, model)
        self._demands = Demands(list(_operators(model.predict_net)), self._shape)
        self._inputs: dict[str, Value] = {}
        self._weights: dict[str, Value] = {}
        self._completed = 0

    def run(self) -> Synthesized:
        """See :func:`synthesize_inputs`."""
        model, workspace = self._model, self._workspace
        if model.init.parameters or model.init.rest:
            workspace.run_net_once(model.init)
        for name in model.init.placeholders:  # samples of inputs, of arbitrary shape
            workspace.remove_blob(name)
        for name, value in self._assumptions.given.items():
            workspace.feed(name, value)
        self._run(model.predict_net, ())
        return Synthesized(self._inputs, self._weights)

    def _run(self, net: NetDef, outer: tuple[Location, ...]) -> None:
        """Run operators in order, and for an If the operators of the branch that it takes."""
        view = NetView(net)
        for op in view.ops:
            location = Location(view.name, op.index, op.type, op.name, outer)
            try:
                self._operator(op, location)
            except StuckError:
                raise
            except (BridgeError, ValueError, IndexError) as error:
                made = Synthesized(self._inputs, self._weights)
                raise StuckError(self._completed, f"{location}: {error}", made) from error
            self._completed += 1

    def _operator(self, op: OpView, location: Location) -> None:
        made = []
        control = control_of(op)
        if isinstance(control, RecurrentNetwork):
            self._first_step(op, control, location)
        for index, name in enumerate(op.inputs):
            if not self._workspace.has_blob(name):
                self._make(name, op, index)
                made.append(index)
        if isinstance(control, If):
            taken = control.bodies.get(control.taken(condition=bool(self._fetch(op.inputs[0]).item())))
            if taken is not None:
                self._run(taken.net, (location,))
            return
        if op.type in _BODIES:
            self._bodies(op)
        if op.type in _WINDOWS:
            require_room(op, self._shape(op.inputs[0]) or ())
        self._workspace.run_operator_once(op.proto)
        if op.type in _PRODUCTS and 1 in made and not op.type.startswith("Int8"):
            self._normalize_scale(op)

    def _first_step(self, op: OpView, control: RecurrentNetwork, location: Location) -> None:
        """Synthesize the states and weights of a recurrent net: its step net runs once, operator by operator."""
        if all(map(self._workspace.has_blob, op.inputs)):
            return
        if not self._workspace.has_blob(op.inputs[0]):
            self._make(op.inputs[0], op, 0)
        initial = dict(zip(control.states, (op.inputs[index] for index in control.initial_ids), strict=True))
        rows: dict[str, Array] = {control.timestep: np.zeros(1, np.int32)}
        for link in control.step_links:
            if link.external in initial and not link.offset:
                rows[link.internal] = self._initial_state(initial[link.external], link.internal)
            elif self._workspace.has_blob(link.external):
                rows[link.internal] = self._fetch(link.external)[link.offset : link.offset + link.window]
        for name, value in rows.items():
            self._workspace.feed(name, value)
        known = set(self._workspace.blobs()).difference(rows)
        self._run(control.step_net, (location,))
        for name in set(self._workspace.blobs()).difference(known, self._inputs, self._weights):
            self._workspace.remove_blob(name)

    def _initial_state(self, name: str, inner: str) -> Array:
        """Return the initial state of that name, [1,N,D] or as declared: D is what the step net demands of its row."""
        if not self._workspace.has_blob(name):
            assumptions = self._assumptions
            features = self._demands.of(inner, last=True).channels or assumptions.size.other
            shape: Shape = (1, assumptions.size.batch, features)[3 - assumptions.ranks.get(name, 3) :]
            shape = assumptions.with_given_dims(name, shape)
            value = self._random.standard_normal(assumptions.shapes.get(name, shape)).astype(np.float32)
            self._inputs[name] = value
            self._workspace.feed(name, value)
        state = self._fetch(name)
        return np.broadcast_to(state, (1, self._assumptions.size.batch, state.shape[-1])).copy()

    def _normalize_scale(self, op: OpView) -> None:
        """Scale a synthesized weight so that the operator's result has the standard deviation that is demanded.

        Without this, values grow or vanish from layer to layer. This is layer-sequential unit variance initialization
        (Mishkin and Matas, "All you need is a good init", 2016).
        """
        spread = float(self._fetch(op.outputs[0]).std())
        demand = self._demand(op)
        if not np.isfinite(spread) or spread < np.finfo(np.float32).tiny:
            return
        name = op.inputs[1]
        weight = self._weights.get(name)
        if not isinstance(weight, np.ndarray):
            return
        self._weights[name] = (weight * (demand.spread / spread)).astype(weight.dtype)
        self._workspace.feed(name, self._weights[name])
        if op.inputs[0] not in op.outputs:
            self._workspace.run_operator_once(op.proto)

    def _bodies(self, op: OpView) -> None:
        """Synthesize what bodies read from the workspace around them."""
        for _, body in nets_run_by(op):
            written = set(body.external_input)
            for inner in NetView(body).ops:
                for index, name in enumerate(inner.inputs):
                    if name not in written and not self._workspace.has_blob(name):
                        self._make(name, inner, index)
                written.update(inner.outputs)

    def _make(self, name: str, op: OpView, index: int) -> None:
        weight = is_weight(op, index)
        value = self._weight(op, index) if weight else self._input(name, op, index)
        (self._weights if weight else self._inputs)[name] = value
        self._workspace.feed(name, value)

    def _demand(self, op: OpView) -> Demand:
        name = op.inputs[1]
        last = op.type not in CONVOLUTIONS or op.args.text("order", default="NCHW") == "NHWC"
        demand = self._demands.of(op.outputs[0], last=last)
        return Demand(self._assumptions.rows[name], demand.spread) if name in self._assumptions.rows else demand

    def _weight(self, op: OpView, index: int) -> Value:
        shape = weight_shape(op, index, self._shape, self._demand(op), self._assumptions.width)
        if shape is None:
            raise RunError(f"the shape of {op.inputs[index]!r} does not follow from the operator")
        if op.type.startswith("Int8") and op.type in CONVOLUTIONS | LAYERS:
            scales = (self._scale(op.inputs[0]), self._scale(op.inputs[1]))
            return quantized_weight(op, index, shape, scales, self._random)
        return weight_values(op, index, shape, self._random)

    def _input(self, name: str, op: OpView, index: int) -> Value:
        assumptions = self._assumptions
        shapes = {blob: value.shape for blob, value in self._inputs.items() if isinstance(value, np.ndarray)}
        shapes |= {blob: value.shape for blob, value in assumptions.given.items() if isinstance(value, np.ndarray)}
        role = self._role(name, op)
        shape = assumptions.shapes.get(name)
        if shape is None:
            suggested = input_shape(name, op, index, role, self._shape, self._demands, assumptions)
            shape = assumptions.with_given_dims(name, suggested)
        dtype = assumptions.dtypes.get(name, np.dtype(np.float32))
        value = draw(dtype, shape, role, self._random, Scene(assumptions.size.steps, assumptions.image, shapes))
        if op.type.startswith("Int8") and op.type != "Int8Quantize" and dtype == np.uint8:
            sample = self._model.init.placeholders.get(name)
            if sample is None or sample.scale is None:
                return Int8Tensor(value, 1.0, 0)
            return Int8Tensor(value, sample.scale, sample.zero_point or 0)
        return value

    def _role(self, name: str, op: OpView) -> Role:
        """Return the role that the operator implies, given shapes of other operands, else that found for the net."""
        found = dict(reversed(list(op_roles(op, op.inputs, self._shape))))
        return found.get(name) or self._roles.get(name, Role())

    def _shape(self, name: str) -> Shape | None:
        value = self._fetch(name) if self._workspace.has_blob(name) else None
        return None if value is None else tuple(value.shape)

    def _fetch(self, name: str) -> Array:
        value = self._workspace.fetch(name)
        if isinstance(value, Int8Tensor):
            return value.data
        return np.asarray(value)

    def _scale(self, name: str) -> float:
        value = self._workspace.fetch(name) if self._workspace.has_blob(name) else None
        return float(value.scale) if isinstance(value, Int8Tensor) else 1.0


def _operators(net: NetDef) -> Sequence[OpView]:
    """Return the operators of a net, its branches, which share its blobs, and its step nets, which read its weights."""
    found: list[OpView] = []
    for op in NetView(net).ops:
        found.append(op)
        control = control_of(op)
        if isinstance(control, If):
            for body in control.bodies.values():
                found += _operators(body.net)
        elif isinstance(control, RecurrentNetwork):
            found += _operators(control.step_net)
    return found

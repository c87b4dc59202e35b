"""A net run operator by operator, and what it lacks made up as each operator asks for it.

The net runs in this project's own workspace. Before an operator runs, the operands that nobody made are made: their
shapes follow from the operator and from the operands that are there. So weights fit whatever size an image has shrunk
to, and inputs fit the weights.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from caffe2_backend.runtime import Int8Tensor, SessionOptions, Workspace
from caffe2_backend.runtime.values import Array
from caffe2_backend.validation.inputs.operands import input_shape
from caffe2_backend.validation.inputs.random_values import Scene, draw
from caffe2_backend.validation.inputs.roles import Role, find_roles, op_roles
from caffe2_backend.validation.inputs.specs import IMAGE, Size
from caffe2_backend.validation.inputs.weights import (
    CONVOLUTIONS,
    LAYERS,
    Shape,
    Wish,
    Wishes,
    is_weight,
    quantized_weight,
    require_room,
    weight_shape,
    weight_values,
)
from caffe2_bridge.control import If, control_of
from caffe2_bridge.diagnostics import BridgeError, Location, RunError
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.views import NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef

Value = Array | Int8Tensor
_BODIES: Final = frozenset(["RecurrentNetwork", "While", "Do"])
_WINDOWS: Final = frozenset({
    "Conv", "ConvRelu", "MaxPool", "AveragePool", "LpPool",
    "Int8Conv", "Int8ConvRelu", "Int8MaxPool", "Int8AveragePool",
})  # fmt: skip
_PRODUCTS: Final = CONVOLUTIONS | LAYERS | {"MatMul"}


@dataclass(frozen=True)
class Walked:
    """What a walk made: ``inputs`` and ``weights``, none of which was given."""

    inputs: Mapping[str, Value] = field(default_factory=dict, repr=False)
    weights: Mapping[str, Value] = field(default_factory=dict, repr=False)


class StuckError(RunError):
    """An operator did not run; ``place`` is how many did, ``made`` what was made up by then."""

    def __init__(self, place: int, reason: str, made: Walked) -> None:
        super().__init__(reason)
        self.place = place
        self.made = made


@dataclass(frozen=True)
class Start:
    """What a walk begins with.

    Attributes:
        given: blobs that have a value already.
        dtypes: of inputs, where they are known; float32 else.
        shapes: of inputs, where they are known.
        ranks: of other inputs, where they are known.
        size: steps and batch.
        image: the side of images.
        rank: of inputs of which nothing says one.
        rows: rows of weights by name, where later operators rely on them in a way that cannot be seen.
        width: channels and features of weights where nothing asks for a number of them.
        seed: of everything.
    """

    given: Mapping[str, Value] = field(default_factory=dict, repr=False)
    dtypes: Mapping[str, np.dtype[Any]] = field(default_factory=dict)
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    ranks: Mapping[str, int] = field(default_factory=dict)
    size: Size = Size(1, 2, 4)  # noqa: RUF009 - frozen
    image: int = IMAGE
    rank: int = 1
    rows: Mapping[str, int] = field(default_factory=dict)
    width: int = 16
    seed: int = 2018


def walk(model: Model, start: Start) -> Walked:
    """Run the model, and make up what its operators read and nobody gives.

    Raises StuckError where an operator does not run.
    """
    return _Walk(model, start).whole()


class _Walk:
    def __init__(self, model: Model, start: Start) -> None:
        self._model, self._start = model, start
        self._random = np.random.default_rng(start.seed)
        self._workspace = Workspace("cpu", options=SessionOptions(threads=1, spinning=False, silent=True), seed=0)
        self._roles = find_roles(None, model)
        self._wishes = Wishes(list(_every(model.predict_net)), self._shape)
        self._inputs: dict[str, Value] = {}
        self._weights: dict[str, Value] = {}
        self._done = 0

    def whole(self) -> Walked:
        """See :func:`walk`."""
        model, workspace = self._model, self._workspace
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # device options are ignored here on purpose
            if model.init.parameters or model.init.rest:
                workspace.run_net_once(model.init)
            for name in model.init.placeholders:  # a sample of an input, of whatever shape
                workspace.remove_blob(name)
            for name, value in self._start.given.items():
                workspace.feed(name, value)
            self._run(model.predict_net, ())
        return Walked(self._inputs, self._weights)

    def _run(self, net: NetDef, outer: tuple[Location, ...]) -> None:
        """Run operators in order, those of the branch that an If takes in its place."""
        view = NetView(net)
        for op in view.ops:
            place = Location(view.name, op.index, op.type, op.name, outer)
            try:
                self._operator(op, place)
            except StuckError:
                raise
            except (BridgeError, ValueError, IndexError) as error:
                made = Walked(self._inputs, self._weights)
                raise StuckError(self._done, f"{place}: {error}", made) from error
            self._done += 1

    def _operator(self, op: OpView, place: Location) -> None:
        made = []
        for index, name in enumerate(op.inputs):
            if not self._workspace.has_blob(name):
                self._make(name, op, index)
                made.append(index)
        control = control_of(op)
        if isinstance(control, If):
            taken = control.bodies.get(control.taken(condition=bool(self._fetch(op.inputs[0]).item())))
            if taken is not None:
                self._run(taken.net, (place,))
            return
        if op.type in _BODIES:
            self._inside(op)
        if op.type in _WINDOWS:
            require_room(op, self._shape(op.inputs[0]) or ())
        self._workspace.run_operator_once(op.proto)
        if op.type in _PRODUCTS and 1 in made and not op.type.startswith("Int8"):
            self._even_out(op)

    def _even_out(self, op: OpView) -> None:
        """Scale a weight that was made so that what it gives spreads as is wished: nothing grows or fades on the way.

        This is what layer-sequential unit variance does (Mishkin and Matas, 2016).
        """
        spread = float(self._fetch(op.outputs[0]).std())
        wish = self._wish(op)
        if not np.isfinite(spread) or spread < np.finfo(np.float32).tiny:
            return
        name = op.inputs[1]
        weight = self._weights.get(name)
        if not isinstance(weight, np.ndarray):
            return
        self._weights[name] = (weight * (wish.spread / spread)).astype(weight.dtype)
        self._workspace.feed(name, self._weights[name])
        if op.inputs[0] not in op.outputs:
            self._workspace.run_operator_once(op.proto)

    def _inside(self, op: OpView) -> None:
        """What a body reads from the workspace around it."""
        for arg in op.proto.arg:
            if not arg.HasField("n") or arg.name.startswith("backward"):
                continue
            written = set(arg.n.external_input)
            for inner in NetView(arg.n).ops:
                for index, name in enumerate(inner.inputs):
                    if name not in written and not self._workspace.has_blob(name):
                        self._make(name, inner, index)
                written.update(inner.outputs)

    def _make(self, name: str, op: OpView, index: int) -> None:
        weight = is_weight(op, index)
        value = self._weight(op, index) if weight else self._input(name, op, index)
        (self._weights if weight else self._inputs)[name] = value
        self._workspace.feed(name, value)

    def _wish(self, op: OpView) -> Wish:
        name = op.inputs[1]
        last = op.type not in CONVOLUTIONS or op.args.text("order", default="NCHW") == "NHWC"
        wish = self._wishes.of(op.outputs[0], last=last)
        return Wish(self._start.rows[name], wish.spread) if name in self._start.rows else wish

    def _weight(self, op: OpView, index: int) -> Value:
        first, other = self._shape(op.inputs[0]), self._shape(op.inputs[1])
        if first is None:
            raise RunError(f"the shape of {op.inputs[0]!r} is not known")
        shape = weight_shape(op, index, first, self._wish(op), self._start.width, other)
        if shape is None:
            raise RunError(f"the shape of {op.inputs[index]!r} does not follow from the operator")
        if op.type.startswith("Int8") and op.type in CONVOLUTIONS | LAYERS:
            scales = (self._scale(op.inputs[0]), self._scale(op.inputs[1]))
            return quantized_weight(op, index, shape, scales, self._random)
        return weight_values(op, index, shape, self._random)

    def _input(self, name: str, op: OpView, index: int) -> Value:
        start = self._start
        shapes = {blob: value.shape for blob, value in self._inputs.items() if isinstance(value, np.ndarray)}
        shapes |= {blob: value.shape for blob, value in start.given.items() if isinstance(value, np.ndarray)}
        role = self._role(name, op)
        shape = start.shapes.get(name)
        if shape is None:
            shape = input_shape(name, op, index, role, self._shape, self._wishes, start)
        dtype = start.dtypes.get(name, np.dtype(np.float32))
        value = draw(dtype, shape, role, self._random, Scene(start.size.steps, start.image, shapes))
        if op.type.startswith("Int8") and op.type != "Int8Quantize" and dtype == np.uint8:
            return Int8Tensor(value, 1.0, 0)
        return value

    def _role(self, name: str, op: OpView) -> Role:
        """The role that the net says, or with the shapes of what is there the one that the operator says."""
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


def _every(net: NetDef) -> Sequence[OpView]:
    """The operators of a net and of its branches, which see its blobs."""
    found: list[OpView] = []
    for op in NetView(net).ops:
        found.append(op)
        control = control_of(op)
        if isinstance(control, If):
            for body in control.bodies.values():
                found += _every(body.net)
    return found

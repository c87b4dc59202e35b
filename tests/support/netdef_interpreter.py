"""A plain NumPy interpreter of Caffe2 nets: what recurrent nets are compared with where real Caffe2 is absent.

It knows the operators of recurrent cells and RecurrentNetwork, whose linked blobs are views of rows: a write to one
writes the state, and the last write of a step counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from caffe2_bridge.netdef.views import NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, TensorProto

Array = np.ndarray[Any, Any]


class Workspace:
    """Blobs; a step's workspace sees those of its parent, and writes through its views."""

    def __init__(self, blobs: Mapping[str, Array], parent: Workspace | None = None) -> None:
        self.blobs = dict(blobs)
        self.views: dict[str, Array] = {}
        self.parent = parent

    def __getitem__(self, name: str) -> Array:
        if name in self.views:
            return self.views[name].copy()
        if name in self.blobs or self.parent is None:
            return self.blobs[name]
        return self.parent[name]

    def __setitem__(self, name: str, value: Array) -> None:
        if name in self.views:
            self.views[name][...] = value.reshape(self.views[name].shape)
        else:
            self.blobs[name] = value


def run_net(net: NetDef, blobs: Mapping[str, Array]) -> dict[str, Array]:
    """Run a net; all blobs of its workspace after it."""
    workspace = Workspace(blobs)
    _run(net, workspace)
    return workspace.blobs


def _run(net: NetDef, workspace: Workspace) -> None:
    for op in NetView(net).ops:
        if op.type == "RecurrentNetwork":
            _recurrent_network(op, workspace)
            continue
        results = _OPERATORS[op.type](op, *(workspace[name] for name in op.inputs))
        for name, value in zip(op.outputs, results if isinstance(results, tuple) else (results,), strict=True):
            workspace[name] = value


def _recurrent_network(op: OpView, workspace: Workspace) -> None:
    args = op.args
    net = args.net("step_net")
    assert net is not None
    steps, batch = workspace[op.inputs[0]].shape[:2]
    for name, position in zip(
        args.texts("recurrent_states"), args.integers("initial_recurrent_state_ids"), strict=True
    ):
        initial = workspace[op.inputs[position]]
        rows = initial.shape[0] if initial.ndim == 3 else 1
        state = np.zeros((steps + rows, batch, initial.shape[-1]), np.float32)
        state[:rows] = initial
        workspace[name] = state
    internal, external = args.texts("link_internal"), args.texts("link_external")
    offsets = args.integers("link_offset")
    windows = args.integers("link_window", (1,) * len(internal))
    for t in range(steps):
        step = Workspace({args.text("timestep", "timestep"): np.array([t], np.int32)}, workspace)
        for inner, outer, offset, window in zip(internal, external, offsets, windows, strict=True):
            step.views[inner] = workspace[outer][t + offset : t + offset + window]
        _run(net, step)
    for source, target, offset in zip(
        args.texts("alias_src"), args.texts("alias_dst"), args.integers("alias_offset"), strict=True
    ):
        workspace[target] = workspace[source][offset if offset >= 0 else len(workspace[source]) + offset :]


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + e^-x), in double precision in between."""
    return (1 / (1 + np.exp(-x.astype(np.float64)))).astype(x.dtype)


def _fc(op: OpView, x: Array, w: Array, b: Array) -> Array:
    axis = op.args.integer("axis", 1)
    rows = x.reshape(int(np.prod(x.shape[:axis])), -1)
    return (rows @ w.T + b).reshape(*x.shape[:axis], len(w))


def _split(op: OpView, x: Array) -> tuple[Array, ...]:
    return tuple(np.split(x, len(op.outputs), axis=op.args.integer("axis", 1)))


def _concat(op: OpView, *xs: Array) -> tuple[Array, Array]:
    """Return the operands, joined along an axis, and their sizes along it."""
    axis = op.args.integer("axis", 1)
    return np.concatenate(xs, axis=axis), np.array([x.shape[axis] for x in xs], np.int32)


def _binary(function: Callable[[Array, Array], Array]) -> Callable[[OpView, Array, Array], Array]:
    def run(op: OpView, a: Array, b: Array) -> Array:
        """Apply the function; with ``axis`` the dims of b line up with those of a from there on."""
        axis = op.args.integer("axis", -1)
        if axis >= 0:
            b = b.reshape(*b.shape, *[1] * (a.ndim - axis - b.ndim))
        return function(a, b)

    return run


def _valid(op: OpView, rest: tuple[Array, ...]) -> Array | None:
    if not op.args.flag("sequence_lengths", default=True):
        return None
    lengths, timestep = rest
    return (timestep < lengths)[:, None]


def _masked(op: OpView, valid: Array | None, new: Array, old: Array) -> Array:
    if valid is None:
        return new
    return np.where(valid, new, np.zeros_like(old) if op.args.flag("drop_states", default=False) else old)


def _lstm_unit(op: OpView, h: Array, c: Array, gates: Array, *rest: Array) -> tuple[Array, Array]:
    i, f, o, g = np.split(gates, 4, axis=-1)
    f = f + np.float32(op.args.number("forget_bias", 0.0))
    new_c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    new_h = sigmoid(o) * np.tanh(new_c)
    valid = _valid(op, rest)
    return _masked(op, valid, new_h, h), _masked(op, valid, new_c, c)


def _gru_unit(op: OpView, h: Array, gates: Array, *rest: Array) -> Array:
    _, u, candidate = np.split(gates, 3, axis=-1)
    u = sigmoid(u)
    return _masked(op, _valid(op, rest), h * u + np.tanh(candidate) * (1 - u), h)


def _cast(op: OpView, x: Array) -> Array:
    assert op.args.integer("to") == TensorProto.FLOAT
    return x.astype(np.float32)


_OPERATORS: dict[str, Callable[..., Any]] = {
    "Add": _binary(np.add),
    "Cast": _cast,
    "Concat": _concat,
    "Copy": lambda _, x: x.copy(),
    "CopyFromCPUInput": lambda _, x: x.copy(),
    "FC": _fc,
    "GE": _binary(np.greater_equal),
    "GRUUnit": _gru_unit,
    "GT": _binary(np.greater),
    "LE": _binary(np.less_equal),
    "LSTMUnit": _lstm_unit,
    "LT": _binary(np.less),
    "Mul": _binary(np.multiply),
    "Negative": lambda _, x: -x,
    "Relu": lambda _, x: np.maximum(x, np.float32(0)),
    "Scale": lambda op, x: x * np.float32(op.args.number("scale")),
    "Sigmoid": lambda _, x: sigmoid(x),
    "Split": _split,
    "Sub": _binary(np.subtract),
    "Sum": lambda _, *xs: np.sum(xs, axis=0, dtype=np.float32),
    "Tanh": lambda _, x: np.tanh(x),
}

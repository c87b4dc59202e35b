"""ONNX's LSTM, GRU and RNN, with every attribute, as RecurrentNetwork."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np

from caffe2_backend.emit.shapes import concat, cut, in_float, moved, scalar
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import FLOAT, Op
from caffe2_backend.recurrent.network import Step, recurrent_network
from caffe2_backend.recurrent.sequence_lengths import backwards, in_time

family = Family("recurrent")

Function = Callable[[Op, str], str]

_PLAIN: Final = ("Sigmoid", "Tanh", "Relu", "Softsign", "Softplus")
_WITH_ALPHA: Final = {"LeakyRelu": 0.01, "ThresholdedRelu": 1.0, "Elu": 1.0}
_WITH_BOTH: Final = {"HardSigmoid": (0.2, 0.5), "Affine": (1.0, 0.0), "ScaledTanh": (1.0, 1.0)}


@dataclass(frozen=True)
class _Kind:
    """A recurrent operator: gates, states, and its default activations for one direction."""

    gates: int
    states: int
    functions: tuple[str, ...]


_KINDS: Final = {
    "RNN": _Kind(1, 1, ("Tanh",)),
    "GRU": _Kind(3, 1, ("Sigmoid", "Tanh")),
    "LSTM": _Kind(4, 2, ("Sigmoid", "Tanh", "Tanh")),
}


@dataclass(frozen=True)
class _Direction:
    """One direction: what of the operands is its own, its functions, and the operator's other attributes."""

    recurrence: str
    bias: str
    hidden: int
    functions: tuple[Function, ...]
    clip: float
    peepholes: tuple[str, ...] = ()
    input_forget: bool = False
    linear_before_reset: bool = False
    lengths: str | None = field(default=None)


@family.converts("LSTM", "GRU", "RNN")
def recurrent(op: Op) -> tuple[str, ...]:
    """Operands: X [T, N, I], W [D, G*H, I], R [D, G*H, H], B [D, 2*G*H], lengths [N], initial states [D, N, H], P."""
    kind = _KINDS[op.type]
    direction = op.text("direction", "forward")
    backward = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}.get(direction)
    if backward is None:
        op.unsupported(f"there is no direction {direction!r}", code="invalid-argument")
    hidden = op.integer("hidden_size", 0) or op.dim(2, 2)
    if not hidden:
        op.unsupported("the size of the hidden state is unknown", code="needs-shape")
    batch_first = bool(op.integer("layout", 0))
    functions = _functions(op, kind, len(backward))
    x = in_float(op, 0)
    x = moved(op, x, [1, 0, 2]) if batch_first else x
    lengths = op.input(4) if op.has_input(4) else None
    clip = op.number("clip", 0.0)
    forget = bool(op.integer("input_forget", 0)) if op.type == "LSTM" else False
    linear = bool(op.integer("linear_before_reset", 0)) if op.type == "GRU" else False
    rows: list[str] = []
    lasts: list[list[str]] = [[] for _ in range(kind.states)]
    mask = None if lengths is None else in_time(op, x, lengths)
    for d, reverse in enumerate(backward):
        bias_w, bias_r = _biases(op, d, kind.gates * hidden)
        part = _Direction(
            _of(op, 2, d), bias_r, hidden, functions[d], clip, _peepholes(op, d, hidden), forget, linear, lengths
        )
        sequence = backwards(op, x, lengths) if reverse else x
        projected = op.emit("FC", sequence, _of(op, 1, d), bias_w, axis=2)
        initial = [_initial(op, 5 + i, d, hidden, batch_first=batch_first) for i in range(kind.states)]
        runs = recurrent_network(op, [projected], initial, _STEPS[op.type](part))
        made = runs[0].all if mask is None else op.emit("Mul", runs[0].all, mask)
        rows.append(op.emit("ExpandDims", backwards(op, made, lengths) if reverse else made, dims=[1]))
        for state, run in zip(lasts, runs, strict=True):
            state.append(op.emit("Copy", run.last))
    y = concat(op, rows, 1)
    ends = [concat(op, state, 0) for state in lasts]
    if batch_first:
        y, ends = moved(op, y, [2, 0, 1, 3]), [moved(op, end, [1, 0, 2]) for end in ends]
    return (y, *ends)


def _of(op: Op, index: int, direction: int) -> str:
    """An operand's part for one direction."""
    known = op.known(index)
    if known is not None:
        return op.const(known[direction], FLOAT)
    return op.emit("Squeeze", cut(op, in_float(op, index), 0, direction, direction + 1), dims=[0])


def _biases(op: Op, direction: int, width: int) -> tuple[str, str]:
    """What is added to the input's and to the state's product."""
    if not op.has_input(3):
        zeros = op.const(np.zeros(width, np.float32))
        return zeros, zeros
    both = _of(op, 3, direction)
    return cut(op, both, 0, 0, width), cut(op, both, 0, width, 2 * width)


def _peepholes(op: Op, direction: int, hidden: int) -> tuple[str, ...]:
    """Weights of the cell in the input, output and forget gate."""
    if op.type != "LSTM" or not op.has_input(7):
        return ()
    whole = _of(op, 7, direction)
    return tuple(cut(op, whole, 0, i * hidden, (i + 1) * hidden) for i in range(3))


def _initial(op: Op, index: int, direction: int, hidden: int, *, batch_first: bool) -> str:
    """The first value of a state, [1, N, H]; zeros of [H], which hold for every batch, where it is left out."""
    if not op.has_input(index):
        return op.const(np.zeros(hidden, np.float32))
    blob = in_float(op, index)
    blob = moved(op, blob, [1, 0, 2]) if batch_first else blob
    if op.dim(1 if batch_first else 0, index) == 1:
        return op.emit("Copy", blob)
    return cut(op, blob, 0, direction, direction + 1)


def _functions(op: Op, kind: _Kind, directions: int) -> list[tuple[Function, ...]]:
    names = op.texts("activations") or list(kind.functions * directions)
    alphas, betas = op.numbers("activation_alpha") or [], op.numbers("activation_beta") or []
    if len(names) != len(kind.functions) * directions:
        op.unsupported(f"{len(names)} activations where {len(kind.functions) * directions} are needed")
    made: list[Function] = []
    for name in names:
        proper = next((known for known in (*_PLAIN, *_WITH_ALPHA, *_WITH_BOTH) if known.lower() == name.lower()), None)
        if proper is None:
            op.unsupported(f"there is no activation {name!r}", code="invalid-argument")
        # As ONNX has it: the lists hold values for those activations alone that have them, in order.
        if proper in _WITH_ALPHA:
            made.append(partial(_with_alpha, proper, alphas.pop(0) if alphas else _WITH_ALPHA[proper]))
        elif proper in _WITH_BOTH:
            alpha, beta = _WITH_BOTH[proper]
            alpha, beta = (alphas.pop(0) if alphas else alpha), (betas.pop(0) if betas else beta)
            made.append(partial(_with_both, proper, alpha, beta))
        else:
            made.append(partial(_plain, proper))
    count = len(kind.functions)
    return [tuple(made[d * count : (d + 1) * count]) for d in range(directions)]


def _plain(name: str, op: Op, blob: str) -> str:
    return op.emit(name, blob)


def _with_alpha(name: str, alpha: float, op: Op, blob: str) -> str:
    return op.emit(name, blob, alpha=alpha)


def _with_both(name: str, alpha: float, beta: float, op: Op, blob: str) -> str:
    if name == "HardSigmoid":
        return op.emit(name, blob, alpha=alpha, beta=beta)
    if name == "Affine":
        return op.emit("Add", op.emit("Mul", blob, scalar(op, alpha, FLOAT)), scalar(op, beta, FLOAT))
    inner = op.emit("Tanh", op.emit("Mul", blob, scalar(op, beta, FLOAT)))
    return op.emit("Mul", inner, scalar(op, alpha, FLOAT))


def _clipped(op: Op, part: _Direction, blob: str) -> str:
    return op.emit("Clip", blob, min=-part.clip, max=part.clip) if part.clip else blob


def _kept(op: Op, part: _Direction, timestep: str, new: str, old: str) -> str:
    """The new state where the step is within the sequence's length, else the old."""
    if part.lengths is None:
        return new
    valid = op.emit("ExpandDims", op.cast(op.emit("LT", timestep, part.lengths), FLOAT), dims=[0, 2])
    return op.emit("Add", old, op.emit("Mul", valid, op.emit("Sub", new, old)))


def _rnn(part: _Direction) -> Step:
    def step(op: Op, rows: Sequence[str], states: Sequence[str], timestep: str) -> list[str]:
        (row,), (h,) = rows, states
        total = op.emit("Add", row, op.emit("FC", h, part.recurrence, part.bias, axis=2))
        return [_kept(op, part, timestep, part.functions[0](op, _clipped(op, part, total)), h)]

    return step


def _gru(part: _Direction) -> Step:
    """Gates in the order update, reset, candidate."""
    f, g = part.functions
    size = part.hidden

    def step(op: Op, rows: Sequence[str], states: Sequence[str], timestep: str) -> list[str]:
        (row,), (h,) = rows, states
        xz, xr, xh = op.emit("Split", row, outputs=3, axis=2)
        recurrence = [cut(op, part.recurrence, 0, i * size, (i + 1) * size) for i in range(3)]
        bias = [cut(op, part.bias, 0, i * size, (i + 1) * size) for i in range(3)]
        hz, hr = (op.emit("FC", h, recurrence[i], bias[i], axis=2) for i in range(2))
        z = f(op, _clipped(op, part, op.emit("Add", xz, hz)))
        r = f(op, _clipped(op, part, op.emit("Add", xr, hr)))
        if part.linear_before_reset:
            hh = op.emit("Mul", r, op.emit("FC", h, recurrence[2], bias[2], axis=2))
        else:
            hh = op.emit("FC", op.emit("Mul", r, h), recurrence[2], bias[2], axis=2)
        candidate = g(op, _clipped(op, part, op.emit("Add", xh, hh)))
        rest = op.emit("Sub", scalar(op, 1.0, FLOAT), z)
        new = op.emit("Add", op.emit("Mul", rest, candidate), op.emit("Mul", z, h))
        return [_kept(op, part, timestep, new, h)]

    return step


def _lstm(part: _Direction) -> Step:
    """Gates in the order input, output, forget, candidate; the cell itself is not clipped, as in onnxruntime."""
    f, g, h_function = part.functions

    def step(op: Op, rows: Sequence[str], states: Sequence[str], timestep: str) -> list[str]:
        (row,), (h, c) = rows, states
        total = op.emit("Add", row, op.emit("FC", h, part.recurrence, part.bias, axis=2))
        xi, xo, xf, xc = op.emit("Split", total, outputs=4, axis=2)
        i = f(op, _clipped(op, part, _peeped(op, part, 0, xi, c)))
        if part.input_forget:
            forget = op.emit("Sub", scalar(op, 1.0, FLOAT), i)
        else:
            forget = f(op, _clipped(op, part, _peeped(op, part, 2, xf, c)))
        candidate = g(op, _clipped(op, part, xc))
        cell = op.emit("Add", op.emit("Mul", forget, c), op.emit("Mul", i, candidate))
        o = f(op, _clipped(op, part, _peeped(op, part, 1, xo, cell)))
        out = op.emit("Mul", o, h_function(op, cell))
        return [_kept(op, part, timestep, out, h), _kept(op, part, timestep, cell, c)]

    return step


def _peeped(op: Op, part: _Direction, gate: int, total: str, cell: str) -> str:
    return op.emit("Add", total, op.emit("Mul", cell, part.peepholes[gate])) if part.peepholes else total


_STEPS: Final = {"RNN": _rnn, "GRU": _gru, "LSTM": _lstm}

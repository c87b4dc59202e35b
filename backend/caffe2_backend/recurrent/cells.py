"""ONNX's LSTM, GRU and RNN, with every attribute, as RecurrentNetwork."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from caffe2_backend.emit.functions import function
from caffe2_backend.emit.selection import concat, slice_axis, transpose
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.value import Value
from caffe2_backend.recurrent.network import recurrent_network
from caffe2_backend.recurrent.sequence_lengths import length_mask, reversal
from caffe2_frontend.interop.constants import is_part_of_zeros
from caffe2_frontend.interop.operators import ALPHAS, PLAIN_ACTIVATIONS, RECURRENT, Recurrence
from caffe2_frontend.interop.types import FLOAT

family = Family("recurrent")

Function = Callable[[Op, Value], Value]

# The gates of LSTMUnit and GRUUnit by their index among those of ONNX.
_UNIT_ORDER: Final = {"LSTM": (0, 2, 1, 3), "GRU": (1, 0, 2)}
_WITH_BOTH: Final = {"HardSigmoid": (0.2, 0.5), "Affine": (1.0, 0.0), "ScaledTanh": (1.0, 1.0)}


@dataclass(frozen=True)
class _Direction:
    """One direction: its parts of the operands, its activations, and the operator's other attributes."""

    recurrence: Value
    bias: Value
    hidden: int
    functions: tuple[Function, ...]
    clip: float
    peepholes: tuple[Value, ...] = ()
    input_forget: bool = False
    linear_before_reset: bool = False
    lengths: Value | None = None
    unit: bool = False  # whether the gates are in the order of an LSTMUnit or GRUUnit, which computes the step


@family.converts("LSTM", "GRU", "RNN")
def recurrent(op: Op) -> tuple[Value | None, ...]:
    """``LSTM(X, W, R, B=None, sequence_lens=None, initial_h=None, initial_c=None, P=None; ...) -> Y, Y_h, Y_c``.

    ``GRU``, ``RNN`` likewise: RecurrentNetwork, one for each direction. X is [T, N, I], W [D, G*H, I], R [D, G*H, H],
    B [D, 2*G*H], the lengths [N], the initial states [D, N, H], with D directions, G gates and H hidden elements.
    """
    kind = RECURRENT[op.type]
    direction = op.args.text("direction", default="forward")
    directions = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}.get(direction)
    if directions is None:
        reason = f"direction must be forward, reverse or bidirectional, not {direction!r}"
        op.unsupported(reason, code="invalid-argument")
    hidden = op.args.integer("hidden_size", default=0) or op.static_dim(op.input(2), 2)
    if not hidden:
        op.needs_shape("the size of the hidden state is unknown")
    if hidden < 0:
        op.unsupported(f"hidden_size must be at least 1, not {hidden}", code="invalid-argument")
    batch_first = op.args.flag("layout", default=False)
    functions = _functions(op, kind, len(directions))
    x = op.require(op.input(0), FLOAT)
    x = transpose(op, x, [1, 0, 2]) if batch_first else x
    lengths, clip = op.optional(4), op.args.number("clip", default=0.0)
    forget = op.args.flag("input_forget", default=False) if op.type == "LSTM" else False
    linear = op.args.flag("linear_before_reset", default=False) if op.type == "GRU" else False
    rows: list[Value] = []
    lasts: list[list[Value]] = [[] for _ in range(kind.states)]
    mask = None if lengths is None or not op.wants(0) else length_mask(op, x, lengths)
    reverse_steps = reversal(op, x, lengths) if True in directions else None
    for d, is_reverse in enumerate(directions):
        input_bias, bias = _biases(op, d, len(kind.gates) * hidden)
        weights, recurrence, peepholes = _of_direction(op, 1, d), _of_direction(op, 2, d), _peepholes(op, d, hidden)
        parameters = [weights, recurrence, input_bias, bias]
        unit = _is_unit(op, kind, d, parameters, clip=clip, forget=forget)
        if unit:
            weights, recurrence, input_bias, bias = (_in_unit_order(op, each) for each in parameters)
        part = _Direction(recurrence, bias, hidden, functions[d], clip, peepholes, forget, linear, lengths, unit)
        sequence = reverse_steps(x) if reverse_steps and is_reverse else x
        projected = op.emit("FC", sequence, weights, input_bias, axis=2)
        initial = [_initial(op, 5 + i, d, hidden, batch_first=batch_first) for i in range(kind.states)]
        runs = recurrent_network(op, [projected], initial, partial(_STEPS[op.type], op, part))
        if op.wants(0):
            made = runs[0].all if mask is None else runs[0].all * mask
            made = reverse_steps(made) if reverse_steps and is_reverse else made
            rows.append(op.emit("ExpandDims", made, dims=[1]))
        for i, (state, run) in enumerate(zip(lasts, runs, strict=True)):
            if op.wants(i + 1):
                state.append(run.last)
    y = concat(op, rows, 1) if rows else None
    if batch_first:
        y = y and transpose(op, y, [2, 0, 1, 3])
    return (y, *(_last(op, state, batch_first=batch_first) if state else None for state in lasts))


def _last(op: Op, parts: Sequence[Value], *, batch_first: bool) -> Value:
    """Return the last state of all directions in memory of its own."""
    whole = concat(op, parts, 0)
    if batch_first:
        return transpose(op, whole, [1, 0, 2])
    return op.emit("Copy", whole) if len(parts) == 1 else whole


def _of_direction(op: Op, index: int, direction: int) -> Value:
    """Return the part of an operand for one direction."""
    operand = op.input(index)
    count, known = op.static_dim(operand, 0), op.known(operand)
    if count is not None and count <= direction:
        op.unsupported(f"input {index} has the parameters of {count} directions only", code="invalid-operands")
    if known is not None:
        return op.const(known[direction], FLOAT)
    return op.emit("Squeeze", slice_axis(op, op.require(operand, FLOAT), 0, direction, direction + 1), dims=[0])


def _is_unit(
    op: Op, kind: Recurrence, direction: int, parameters: Sequence[Value], *, clip: float, forget: bool
) -> bool:
    """Whether a unit of Caffe2 computes the steps of a direction, whose known parameters are put in its order."""
    count, names = len(kind.activations), [name.lower() for name in op.args.texts("activations", default=())]
    plain = not names or names[count * direction :][:count] == [name.lower() for name in kind.activations]
    known = all(value.array is not None and len(value.array) % len(kind.gates) == 0 for value in parameters)
    # Of an initial state of unknown dims the products of a GRU tell more than a GRUUnit does.
    tells = op.type != "GRU" or not op.has_input(5)
    return op.type in _UNIT_ORDER and plain and not clip and not forget and not op.has_input(7) and known and tells


def _in_unit_order(op: Op, parameter: Value) -> Value:
    """Return the gates of a parameter [gates*H, ...], which is known, in the order of a unit."""
    assert parameter.array is not None
    order = _UNIT_ORDER[op.type]
    gates = np.split(parameter.array, len(order))
    return op.const(np.concatenate([gates[index] for index in order]), FLOAT)


def _biases(op: Op, direction: int, width: int) -> tuple[Value, Value]:
    """Return what is added to the product of the input, and to that of the state."""
    if not op.has_input(3):
        zeros = op.const(np.zeros(op.bounded(width)), FLOAT)
        return zeros, zeros
    both = _of_direction(op, 3, direction)
    return slice_axis(op, both, 0, 0, width), slice_axis(op, both, 0, width, 2 * width)


def _peepholes(op: Op, direction: int, hidden: int) -> tuple[Value, ...]:
    """Return the weights of the cell in the input, output and forget gate."""
    if op.type != "LSTM" or not op.has_input(7):
        return ()
    whole = _of_direction(op, 7, direction)
    return tuple(slice_axis(op, whole, 0, i * hidden, (i + 1) * hidden) for i in range(3))


def _initial(op: Op, index: int, direction: int, hidden: int, *, batch_first: bool) -> Value:
    """Return the first value of a state, [1, N, H]; zeros of [H], for every batch, where it is missing or zero."""
    operand = op.optional(index)
    if operand is None or is_part_of_zeros(op.operand(index)):
        return op.const(np.zeros(op.bounded(hidden)), FLOAT)
    state = op.require(operand, FLOAT)
    state = transpose(op, state, [1, 0, 2]) if batch_first else state
    if op.static_dim(operand, 1 if batch_first else 0) == 1:
        return state
    return slice_axis(op, state, 0, direction, direction + 1)


def _functions(op: Op, kind: Recurrence, directions: int) -> list[tuple[Function, ...]]:
    """Return the activations of each direction. Alphas and betas are listed for those that have them only."""
    names = op.args.texts("activations", default=()) or kind.activations * directions
    alphas = list(op.args.numbers("activation_alpha", default=()))
    betas = list(op.args.numbers("activation_beta", default=()))
    count = len(kind.activations)
    if len(names) != count * directions:
        op.unsupported(f"activations must be {count * directions} names, not {len(names)}")
    known = {name.lower(): name for name in (*PLAIN_ACTIVATIONS, *ALPHAS, *_WITH_BOTH)}
    functions: list[Function] = []
    for name in names:
        proper = known.get(name.lower())
        if proper is None:
            reason = f"activation {name!r} is unknown"
            op.unsupported(reason, f"use one of {', '.join(known.values())}", code="invalid-argument")
        if proper in ALPHAS:
            functions.append(partial(_with_alpha, proper, alphas.pop(0) if alphas else ALPHAS[proper]))
        elif proper in _WITH_BOTH:
            alpha, beta = _WITH_BOTH[proper]
            alpha, beta = (alphas.pop(0) if alphas else alpha), (betas.pop(0) if betas else beta)
            functions.append(partial(_with_both, proper, alpha, beta))
        else:
            functions.append(partial(_plain, proper))
    return [tuple(functions[d * count : (d + 1) * count]) for d in range(directions)]


def _plain(name: str, op: Op, value: Value) -> Value:
    return function(op, name, value)


def _with_alpha(name: str, alpha: float, op: Op, value: Value) -> Value:
    return op.emit(name, value, alpha=alpha)


def _with_both(name: str, alpha: float, beta: float, op: Op, value: Value) -> Value:
    if name == "HardSigmoid":
        return op.emit(name, value, alpha=alpha, beta=beta)
    if name == "Affine":
        return value * alpha + beta
    return op.emit("Tanh", value * beta) * alpha


def _clipped(op: Op, part: _Direction, value: Value) -> Value:
    return op.emit("Clip", value, min=-part.clip, max=part.clip) if part.clip else value


def _kept(op: Op, part: _Direction, timestep: Value, new: Value, old: Value) -> Value:
    """Return the new state where the step is within the length of the sequence, else the old one."""
    if part.lengths is None:
        return new
    is_valid = op.emit("ExpandDims", (timestep < part.lengths).cast(FLOAT), dims=[0, 2])
    return old + is_valid * (new - old)


def _rnn(op: Op, part: _Direction, rows: Sequence[Value], states: Sequence[Value], timestep: Value) -> list[Value]:
    (row,), (h,) = rows, states
    total = row + op.emit("FC", h, part.recurrence, part.bias, axis=2)
    return [_kept(op, part, timestep, part.functions[0](op, _clipped(op, part, total)), h)]


def _gru(op: Op, part: _Direction, rows: Sequence[Value], states: Sequence[Value], timestep: Value) -> list[Value]:
    """Return the new state. The gates are in the order update, reset, candidate."""
    if part.unit:
        return [_gru_unit(op, part, rows[0], states[0], timestep)]
    f, g = part.functions
    (row,), (h,), size = rows, states, part.hidden
    x_update, x_reset, x_candidate = op.emit("Split", row, outputs=3, axis=2)
    weights = [slice_axis(op, part.recurrence, 0, i * size, (i + 1) * size) for i in range(3)]
    bias = [slice_axis(op, part.bias, 0, i * size, (i + 1) * size) for i in range(3)]
    h_update, h_reset = (op.emit("FC", h, weights[i], bias[i], axis=2) for i in range(2))
    update = f(op, _clipped(op, part, x_update + h_update))
    reset = f(op, _clipped(op, part, x_reset + h_reset))
    if part.linear_before_reset:
        h_candidate = reset * op.emit("FC", h, weights[2], bias[2], axis=2)
    else:
        h_candidate = op.emit("FC", reset * h, weights[2], bias[2], axis=2)
    candidate = g(op, _clipped(op, part, x_candidate + h_candidate))
    return [_kept(op, part, timestep, (1.0 - update) * candidate + update * h, h)]


def _gru_unit(op: Op, part: _Direction, row: Value, h: Value, timestep: Value) -> Value:
    """Return the new state by a GRUUnit, whose gates are reset, update and candidate; it does not read the first."""
    width = 2 * part.hidden
    sizes = [width, part.hidden]
    x_gates, x_candidate = op.emit("Split", row, outputs=2, axis=2, split=sizes)
    if part.linear_before_reset:
        total = op.emit("FC", h, part.recurrence, part.bias, axis=2)
        h_gates, h_candidate = op.emit("Split", total, outputs=2, axis=2, split=sizes)
        gates = x_gates + h_gates
        h_candidate = _reset_gate(op, part, gates) * h_candidate
    else:
        of_gates, of_candidate = (
            [slice_axis(op, each, 0, start, end) for each in (part.recurrence, part.bias)]
            for start, end in ((0, width), (width, width + part.hidden))
        )
        gates = x_gates + op.emit("FC", h, *of_gates, axis=2)
        h_candidate = op.emit("FC", _reset_gate(op, part, gates) * h, *of_candidate, axis=2)
    lengths = [] if part.lengths is None else [part.lengths]
    gates = concat(op, [gates, x_candidate + h_candidate], 2)
    return op.emit("GRUUnit", h, gates, *lengths, timestep, sequence_lengths=len(lengths))


def _reset_gate(op: Op, part: _Direction, gates: Value) -> Value:
    return op.emit("Sigmoid", slice_axis(op, gates, 2, 0, part.hidden))


def _lstm(op: Op, part: _Direction, rows: Sequence[Value], states: Sequence[Value], timestep: Value) -> list[Value]:
    """Return the new states. Gates: input, output, forget, candidate; the cell is not clipped, as in onnxruntime."""
    f, g, h_function = part.functions
    (row,), (h, c) = rows, states
    total = row + op.emit("FC", h, part.recurrence, part.bias, axis=2)
    if part.unit:
        lengths = [] if part.lengths is None else [part.lengths]
        return [*op.emit("LSTMUnit", h, c, total, *lengths, timestep, outputs=2, sequence_lengths=len(lengths))]
    x_input, x_output, x_forget, x_candidate = op.emit("Split", total, outputs=4, axis=2)
    input_ = f(op, _clipped(op, part, _with_peephole(part, 0, x_input, c)))
    forget = 1.0 - input_ if part.input_forget else f(op, _clipped(op, part, _with_peephole(part, 2, x_forget, c)))
    candidate = g(op, _clipped(op, part, x_candidate))
    cell = forget * c + input_ * candidate
    output = f(op, _clipped(op, part, _with_peephole(part, 1, x_output, cell)))
    out = output * h_function(op, cell)
    return [_kept(op, part, timestep, out, h), _kept(op, part, timestep, cell, c)]


def _with_peephole(part: _Direction, gate: int, total: Value, cell: Value) -> Value:
    return total + cell * part.peepholes[gate] if part.peepholes else total


_STEPS: Final[dict[str, Callable[..., Sequence[Value]]]] = {"RNN": _rnn, "GRU": _gru, "LSTM": _lstm}

"""Recurrent layers of dynamically quantized operands, as onnxruntime's quantizer writes them."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from caffe2_backend.definitions.definition import Definition
from caffe2_backend.definitions.family import MICROSOFT, Family

family = Family(MICROSOFT)

FLOAT = ir.DataType.FLOAT
_DEFAULTS = ["sigmoid", "tanh", "tanh"]


@family.defines("DynamicQuantizeLSTM")
def dynamic_quantize_lstm(define: Definition) -> tuple[ir.Value, ir.Value, ir.Value]:
    """``DynamicQuantizeLSTM(X, W, R, B, sequence_lens, initial_h, initial_c, P, W_scale, W_zero, R_scale, R_zero)``.

    -> Y, Y_h, Y_c. X [T, N, I] is quantized as a whole, the state h [N, H] at every step: products with W [dirs, I, 4H]
    and R [dirs, H, 4H] are those of integers. The last states of rows of length zero are zeros. Other activations than
    the defaults are not defined.
    """
    if not _has_defaults(define):
        define.undefined()
    direction = define.text("direction", "forward")
    reversed_ = {"forward": [0], "reverse": [1], "bidirectional": [0, 1]}[direction]
    layers = [_layer(define, index, is_reverse) for index, is_reverse in enumerate(reversed_)]
    parts = [
        [define("Unsqueeze", layer[i], define.ints(axis)) for layer in layers] for i, axis in ((0, 1), (1, 0), (2, 0))
    ]
    y, h, c = (_joined(define, part, axis) for part, axis in zip(parts, (1, 0, 0), strict=True))
    return y, h, c


def _has_defaults(define: Definition) -> bool:
    given = [name.lower() for name in define.texts("activations")]
    plain = all(given[i : i + 3] == _DEFAULTS for i in range(0, len(given), 3))
    others = define.attributes("activation_alpha", "activation_beta", "clip")
    return plain and not others and not define.integer("input_forget", 0)


def _joined(define: Definition, parts: Sequence[ir.Value], axis: int) -> ir.Value:
    return parts[0] if len(parts) == 1 else define("Concat", *parts, axis=axis)


def _layer(define: Definition, index: int, is_reverse: int) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return the outputs of all steps [T, N, H], and the last states [N, H], of one direction."""
    hidden, x = define.required("hidden_size"), define.input(0)
    given = _integer_product(
        define, x, _of_direction(define, 1, index), _of_direction(define, 8, index), _of_direction(define, 9, index)
    )
    if define.has_input(3):
        bias = define.several(2, "Split", _of_direction(define, 3, index), axis=0, num_outputs=2)
        given = define("Add", define("Add", given, bias[0]), bias[1])
    shape = define("Concat", define.dim(x, 1), define.ints(hidden), axis=0)
    zeros = define("Expand", define.const(0.0, FLOAT), shape)
    states = [_of_direction(define, i, index) if define.has_input(i) else zeros for i in (5, 6)]
    lengths = define.optional(4)
    if lengths is None:
        return _scan(define, index, states, [given], is_reverse)
    steps = define("Range", define.const(0), define("Squeeze", define.dim(x, 0), define.ints(0)), define.const(1))
    bounds = define("Unsqueeze", define.cast(lengths, ir.DataType.INT64), define.ints(1))
    is_seen = define("Less", define("Unsqueeze", steps, define.ints(1, 2)), bounds)
    sequences = [_reversed(define, given) if is_reverse else given, is_seen]
    rows, h, c = _scan(define, index, [*states, zeros, zeros], sequences, 0)
    return _reversed(define, rows) if is_reverse else rows, h, c


def _reversed(define: Definition, rows: ir.Value) -> ir.Value:
    """Return the rows [T, N, ...] of each sequence, as many as it has, from the last to the first."""
    lengths = define.cast(define.input(4), ir.DataType.INT64)
    return define("ReverseSequence", rows, lengths, time_axis=0, batch_axis=1)


def _scan(
    define: Definition, index: int, states: Sequence[ir.Value], sequences: Sequence[ir.Value], is_reverse: int
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return the outputs of all steps and the last states, from products of the inputs, and which rows have a step.

    Behind its last step a row's states are zeros, with which the state as a whole is quantized; its last states are
    further ones.
    """
    weights = [_of_direction(define, i, index) for i in (2, 10, 11)]
    peepholes: Sequence[ir.Value | None] = [None] * 3  # of the input, output and forget gates
    if define.has_input(7):
        peepholes = define.several(3, "Split", _of_direction(define, 7, index), axis=0, num_outputs=3)

    def step(formals: Sequence[ir.Value]) -> list[ir.Value]:
        (before_h, before_c, *last), (row, *seen) = formals[: len(states)], formals[len(states) :]
        total = define("Add", row, _integer_product(define, before_h, *weights))
        gates = define.several(4, "Split", total, axis=-1, num_outputs=4)
        into, kept = (_gate(define, gates[i], peepholes[i], before_c) for i in (0, 2))
        cell = define("Add", define("Mul", kept, before_c), define("Mul", into, define("Tanh", gates[3])))
        state = define("Mul", _gate(define, gates[1], peepholes[1], cell), define("Tanh", cell))
        if not seen:
            return [state, cell, define("Identity", state)]
        going = [define("Where", seen[0], each, define.const(0.0, FLOAT)) for each in (state, cell)]
        after = [define("Where", seen[0], each, old) for each, old in zip((state, cell), last, strict=True)]
        return [*going, *after, define("Identity", going[0])]

    count = len(sequences)
    *ends, rows = define.several(
        len(states) + 1, "Scan", *states, *sequences, body=define.body_of(len(states) + count, step),
        num_scan_inputs=count, scan_input_directions=[is_reverse] * count, scan_output_directions=[is_reverse],
    )  # fmt: skip
    return rows, ends[-2], ends[-1]


def _gate(define: Definition, total: ir.Value, peephole: ir.Value | None, cell: ir.Value) -> ir.Value:
    seen = None if peephole is None else define("Mul", peephole, cell)
    return define("Sigmoid", define.add(total, seen))


def _of_direction(define: Definition, operand: int, index: int) -> ir.Value:
    return define("Gather", define.input(operand), define.const(index), axis=0)


def _integer_product(define: Definition, x: ir.Value, weights: ir.Value, scale: ir.Value, zero: ir.Value) -> ir.Value:
    """Return the product of floats, quantized as a whole, with quantized weights."""
    quantized, own_scale, own_zero = define.several(3, "DynamicQuantizeLinear", x)
    total = define("MatMulInteger", quantized, weights, own_zero, zero)
    return define("Mul", define.cast(total, FLOAT), define("Mul", own_scale, scale))

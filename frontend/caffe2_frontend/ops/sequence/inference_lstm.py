"""InferenceLSTM: a stack of LSTM layers, of one direction or two, as one operator."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.arithmetic import add, mul
from caffe2_frontend.emit.shapes import (
    as_vector,
    flatten,
    reverse_rows,
    slice_axis,
    squeeze,
    transpose_matrix,
    unsqueeze,
)
from caffe2_frontend.emit.subgraphs import scan
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("inference_lstm")

_GATES = 4
# Caffe2 orders the gates input, forget, cell, output; ONNX input, output, forget, cell.
_ONNX_ORDER = (0, 3, 1, 2)


@dataclass(frozen=True)
class _Direction:
    """The parameters of one direction of a layer (biases None without ``has_biases``), and its initial states."""

    input_weights: Value
    hidden_weights: Value
    input_bias: Value | None
    hidden_bias: Value | None
    hidden: Value
    cell: Value
    reverse: bool


@dataclass(frozen=True)
class _Result:
    """The outputs of one direction, [T, N, H], and its last states, [1, N, H]."""

    output: Value
    hidden: Value
    cell: Value


def _operand(op: OpView, index: int) -> TensorInfo:
    """Describe the input and the states as float of rank 3, weights as matrices and biases as vectors."""
    if index < 3:
        return TensorInfo(ir.DataType.FLOAT, (None,) * 3)
    biases = op.args.flag("has_biases", default=True)
    return TensorInfo(ir.DataType.FLOAT, (None,) if biases and (index - 3) % 4 > 1 else (None, None))


@family.converts("InferenceLSTM", expects=_operand)
def inference_lstm(op: Op) -> tuple[Value, Value, Value]:
    """InferenceLSTM(input, hidden, cell, *params; num_layers=1, bidirectional=0, ...) -> output, hidden, cell.

    The remaining arguments are has_biases=1 and batch_first=0. The input is [T, N, I], the states are
    [layers * directions, N, H]; each direction of a layer has input weights [4H, I], hidden weights [4H, H] and, with
    has_biases, two biases [4H]. A direction is an ONNX LSTM if H is known at conversion, as it is an attribute there,
    and a Scan otherwise.
    """
    layers = op.args.integer("num_layers", default=1)
    directions = 2 if op.args.flag("bidirectional", default=False) else 1
    biases = op.args.flag("has_biases", default=True)
    batch_first = op.args.flag("batch_first", default=False)
    each = 4 if biases else 2
    params = op.inputs[3:]
    if layers <= 0 or len(params) != layers * directions * each:
        op.unsupported(
            f"{layers} layers of {directions} directions must have {max(layers, 0) * directions * each} parameters "
            f"({each} each), not {len(params)}",
            code="invalid-operands",
        )
    x = op.emit("Transpose", op.input(0), perm=[1, 0, 2]) if batch_first else op.input(0)
    results: list[_Result] = []
    for layer in range(layers):
        both = [
            _direction(op, params[number * each :][:each], number, reverse=number % directions == 1)
            for number in range(layer * directions, (layer + 1) * directions)
        ]
        here = [_emit_direction(op, x, direction) for direction in both]
        x = op.emit("Concat", *(r.output for r in here), axis=2) if directions == 2 else here[0].output
        results += here
    output = op.emit("Transpose", x, perm=[1, 0, 2]) if batch_first else x
    return (
        output,
        op.emit("Concat", *(r.hidden for r in results), axis=0),
        op.emit("Concat", *(r.cell for r in results), axis=0),
    )


def _direction(op: Op, params: tuple[Value, ...], number: int, *, reverse: bool) -> _Direction:
    hidden, cell = (slice_axis(op, op.input(i), 0, number, number + 1) for i in (1, 2))
    input_weights, hidden_weights = (flatten(op, weights, 1) for weights in params[:2])
    input_bias, hidden_bias = (as_vector(op, bias) for bias in params[2:]) if params[2:] else (None, None)
    return _Direction(input_weights, hidden_weights, input_bias, hidden_bias, hidden, cell, reverse)


def _emit_direction(op: Op, x: Value, direction: _Direction) -> _Result:
    units = op.static_dim(direction.hidden_weights, 1)
    return _as_scan(op, x, direction) if units is None else _as_lstm(op, x, direction, units)


def _as_lstm(op: Op, x: Value, direction: _Direction, units: int) -> _Result:
    weights = [_in_onnx_order(op, w) for w in (direction.input_weights, direction.hidden_weights)]
    bias = None
    if direction.input_bias is not None and direction.hidden_bias is not None:
        both = [_in_onnx_order(op, b) for b in (direction.input_bias, direction.hidden_bias)]
        bias = op.emit("Concat", *both, axis=1)
    # Not all runtimes have the direction "reverse".
    turned = direction.reverse and op.lowering.recurrent == "portable"
    x = reverse_rows(op, x) if turned else x
    output, hidden, cell = op.emit(
        "LSTM",
        x,
        *weights,
        bias,
        None,
        direction.hidden,
        direction.cell,
        outputs=3,
        direction="reverse" if direction.reverse and not turned else "forward",
        hidden_size=units,
    )
    rows = squeeze(op, output, [1])
    return _Result(reverse_rows(op, rows) if turned else rows, hidden, cell)


def _in_onnx_order(op: Op, param: Value) -> Value:
    """Reorder the gates of a parameter [4H, ...] as in ONNX, and add the leading dim of directions."""
    gates = op.emit("Split", param, axis=0, num_outputs=_GATES, outputs=_GATES)
    return unsqueeze(op, op.emit("Concat", *(gates[i] for i in _ONNX_ORDER), axis=0), [0])


def _as_scan(op: Op, x: Value, direction: _Direction) -> _Result:
    """Emit a Scan; the product with the input weights and both biases are computed for all steps before it."""
    steps = op.emit("MatMul", x, transpose_matrix(op, direction.input_weights))
    for bias in (direction.input_bias, direction.hidden_bias):
        steps = steps if bias is None else add(op, steps, bias)
    weights = transpose_matrix(op, direction.hidden_weights)
    initial = [squeeze(op, v, [0]) for v in (direction.hidden, direction.cell)]

    def step(inside: Op, states: list[Value], rows: list[Value]) -> tuple[list[Value], list[Value]]:
        hidden, cell = states
        gates = add(inside, rows[0], inside.emit("MatMul", hidden, weights))
        i, f, g, o = inside.emit("Split", gates, axis=1, num_outputs=_GATES, outputs=_GATES)
        i, f, o = (inside.emit("Sigmoid", v) for v in (i, f, o))
        cell = add(inside, mul(inside, f, cell), mul(inside, i, inside.emit("Tanh", g)))
        hidden = mul(inside, o, inside.emit("Tanh", cell))
        return [hidden, cell], [hidden]

    (hidden, cell), (output,) = scan(op, initial, [steps], step, reverse=direction.reverse)
    return _Result(output, *(unsqueeze(op, v, [0]) for v in (hidden, cell)))

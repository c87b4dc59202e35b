"""The arithmetic of the operators that cells are made of, in PyTorch, whose autograd differentiates it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from caffe2_bridge.netdef.views import Args, NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef

Values = dict[str, Tensor]


def run(net: NetDef, values: Values) -> None:
    """Run the operators of a net; ``values`` gets what they write."""
    for op in NetView(net).ops:
        inputs = [values[name] for name in op.inputs]
        if op.type == "RecurrentNetwork":
            recur(op, values)
        elif op.outputs:
            values.update(zip(op.outputs, KINDS[op.type](op.args, inputs), strict=False))


def recur(op: OpView, values: Values) -> None:
    args = op.args
    step = args.net("step_net")
    assert step is not None
    states = args.texts("recurrent_states")
    names = zip(args.texts("link_external"), args.integers("link_offset"), args.texts("link_internal"), strict=True)
    linked = {(rows, offset): name for rows, offset, name in names}
    initial = (values[op.inputs[index]] for index in args.integers("initial_recurrent_state_ids"))
    steps, batch = values[op.inputs[0]].shape[:2]
    now = {
        rows: first.reshape(-1, first.shape[-1]).expand(batch, -1)[None]
        for rows, first in zip(states, initial, strict=True)
    }
    every: dict[str, list[Tensor]] = {rows: [] for rows in states}
    for t in range(steps):
        inner = values | {args.text("timestep"): torch.tensor([t], dtype=torch.int32)}
        for (rows, offset), name in linked.items():
            if offset == 0:
                inner[name] = now[rows] if rows in now else values[rows][t : t + 1]
        run(step, inner)
        for rows in states:
            now[rows] = inner[linked[rows, 1]]
            every[rows].append(now[rows])
    aliases = zip(args.texts("alias_src"), args.texts("alias_dst"), args.integers("alias_offset"), strict=True)
    for rows, name, offset in aliases:
        values[name] = torch.cat(every[rows]) if offset == 1 else now[rows]


def one(function: Callable[[Args, Sequence[Tensor]], Tensor]) -> Callable[[Args, Sequence[Tensor]], tuple[Tensor, ...]]:
    return lambda args, inputs: (function(args, inputs),)


def aligned(args: Args, a: Tensor, b: Tensor) -> Tensor:
    """Return the second operand with dims of 1 behind it, where ``axis`` says that it starts before the last dims."""
    axis = args.integer("axis", default=-1)
    return b if axis == -1 else b.reshape(*b.shape, *[1] * (a.ndim - axis - b.ndim))


def masked(
    args: Args, inputs: Sequence[Tensor], before: Sequence[Tensor], after: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Return the states after a step: a sequence that has ended keeps its state, or drops it."""
    if not args.flag("sequence_lengths", default=True):
        return tuple(after)
    lengths, timestep = inputs[-2:]
    valid = (timestep < lengths)[None, :, None]
    drop = args.flag("drop_states", default=False)
    return tuple(
        torch.where(valid, new, torch.zeros_like(old) if drop else old) for old, new in zip(before, after, strict=True)
    )


def lstm_unit(args: Args, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    hidden, cell, gates = inputs[:3]
    i, f, o, g = gates.chunk(4, dim=-1)
    new_cell = torch.sigmoid(f + args.number("forget_bias", default=0.0)) * cell + torch.sigmoid(i) * torch.tanh(g)
    return masked(args, inputs, (hidden, cell), (torch.sigmoid(o) * torch.tanh(new_cell), new_cell))


def gru_unit(args: Args, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    hidden, gates = inputs[:2]
    _, update, output = gates.chunk(3, dim=-1)
    keep = torch.sigmoid(update)
    return masked(args, inputs, (hidden,), (hidden * keep + torch.tanh(output) * (1 - keep),))


def split(args: Args, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    axis = args.integer("axis")
    count = inputs[0].shape[0] if axis == 0 else 3  # the rows of a sequence, or the gates of a GRU
    chunks: tuple[Tensor, ...] = inputs[0].chunk(count, dim=axis)
    return chunks


def layer_norm(args: Args, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    x, scale, bias = inputs
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
    return ((x - mean) / torch.sqrt(variance + args.number("epsilon")) * scale + bias,)


def sequence_mask(args: Args, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    assert args.text("mode") == "sequence"
    x, lengths = inputs  # [N, S, 1]
    valid = torch.arange(x.shape[1])[None, :] < lengths[:, None]
    return (x.masked_fill(~valid[..., None], -torch.inf),)


def batch_matmul(args: Args, inputs: Sequence[Tensor]) -> Tensor:
    a, b = inputs
    return (a.transpose(1, 2) if args.flag("trans_a", default=False) else a) @ b


def transpose(args: Args, inputs: Sequence[Tensor]) -> Tensor:
    (x,) = inputs
    return x.permute(args.integers("axes", default=tuple(reversed(range(x.ndim)))))


KINDS: Mapping[str, Callable[[Args, Any], tuple[Tensor, ...]]] = {
    "Add": one(lambda args, x: x[0] + aligned(args, *x)),
    "BatchMatMul": one(batch_matmul),
    "Concat": one(lambda args, x: torch.cat(tuple(x), dim=args.integer("axis"))),
    "ConstantFill": one(lambda args, x: torch.full(x[0].tolist(), args.number("value"))),
    "Copy": one(lambda _, x: x[0]),
    "Dropout": one(lambda _, x: x[0]),
    "ElementwiseLinear": one(lambda _, x: x[0] * x[1] + x[2]),
    "ExpandDims": one(lambda args, x: x[0].unsqueeze(*args.integers("dims"))),
    "FC": one(lambda _, x: x[0] @ x[1].T + x[2]),
    "GRUUnit": gru_unit,
    "LSTMUnit": lstm_unit,
    "LayerNorm": layer_norm,
    "Mul": one(lambda args, x: x[0] * aligned(args, *x)),
    "Relu": one(lambda _, x: torch.relu(x[0])),
    "Reshape": one(lambda args, x: x[0].reshape(args.integers("shape"))),
    "SequenceMask": sequence_mask,
    "Shape": one(lambda _, x: torch.tensor(x[0].shape)),
    "Sigmoid": one(lambda _, x: torch.sigmoid(x[0])),
    "Slice": one(lambda args, x: x[0][args.integers("starts")[0] : args.integers("ends")[0]]),
    "Softmax": one(lambda args, x: torch.softmax(x[0], dim=args.integer("axis"))),
    "Split": split,
    "Squeeze": one(lambda args, x: x[0].squeeze(*args.integers("dims"))),
    "Sum": one(lambda _, x: sum(x[1:], x[0])),
    "SumElements": one(lambda _, x: x[0].sum()),
    "Tanh": one(lambda _, x: torch.tanh(x[0])),
    "Tile": one(lambda _, x: x[0].repeat(int(x[1]), 1)),
    "Transpose": one(transpose),
}

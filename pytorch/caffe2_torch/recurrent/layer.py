"""A recognized cell as a recurrent layer of PyTorch.

The layer's weights are made of the net's own blobs each time it runs, so that parameters keep their names and gradients
reach them: the gates in PyTorch's order, one copy of the weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import torch

from caffe2_bridge.cells.match import Cell, Columns, NoMatchError
from caffe2_bridge.cells.projection import Projection

# From PyTorch's order of gates to ONNX's, which cells have: i f g o of i o f g, and r z n of z r n.
_GATES: Final[Mapping[str, tuple[int, ...]]] = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
_RNNS: Final[Mapping[str, str]] = {"Tanh": "rnn_tanh", "Relu": "rnn_relu"}
# Added to the operand of a gate, it gives 0 or 1 whatever else is added.
_SATURATING: Final = 1e4

Tensors = Mapping[str, torch.Tensor]


class MisfitError(Exception):
    """The blobs do not have the shapes of a layer's: the step net computes something else, or refuses them."""


@dataclass(frozen=True)
class Layer:
    """A cell with the sequence that it reads.

    Attributes:
        cell: the cell.
        source: its input; the rows of cells below are named as their ``output``.
        initial: the blobs with the initial states.
        keeps_cell_state: whether the cell state after the last step is read.
    """

    cell: Cell[str]
    source: Projection[str]
    initial: tuple[str, ...]
    keeps_cell_state: bool

    def __post_init__(self) -> None:
        kind = self.cell.kind
        if kind == "GRU" and not self.cell.linear_before_reset:
            raise NoMatchError("PyTorch's GRU multiplies by the reset gate after the recurrent product")
        if kind == "RNN" and self.cell.activation not in _RNNS:
            raise NoMatchError(f"PyTorch has no RNN of {self.cell.activation}")

    @property
    def blobs(self) -> set[str]:
        """The blobs that the layer reads, with the rows of cells below."""
        gates = [(gate.recurrent, *gate.biases, *gate.recurrent_biases) for gate in self.cell.gates]
        columns = [*(self.source.columns or ()), *(part for parts in (*gates, *self.source.biases) for part in parts)]
        lengths = () if self.cell.lengths is None else (self.cell.lengths,)
        return {*self.source.sequences, *self.initial, *lengths, *(part.value for part in columns)}

    def run(self, tensors: Tensors) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Return the rows of h, [T, N, H], and the states after the last step, [1, N, H] each.

        Raises MisfitError where operands do not fit.
        """
        x = self._input(tensors)
        width = tensors[self.cell.gates[0].recurrent.value].shape[-1]
        starts = [_initial(tensors[name], x, width) for name in self.initial]
        lengths = self._lengths(tensors, x)
        weights = self._weights(tensors, x, width)
        if lengths is not None and self.keeps_cell_state and not self.cell.drop:
            x, weights[0] = _freeze_cell_state(x, weights[0], lengths, width)
        y, *finals = self._compute(x, starts, _contiguous(weights))
        if lengths is None:
            return y, finals
        valid = torch.arange(x.shape[0], device=x.device)[:, None, None] < lengths[:, None]
        if self.cell.drop:
            return torch.where(valid, y, 0), [torch.where(valid[-1:], final, 0) for final in finals]
        index = (lengths - 1).clamp(min=0).reshape(1, -1, 1).expand(1, -1, width)
        last = torch.where(valid[:1], y.gather(0, index), starts[0])
        return torch.where(valid, y, last), [last, *finals[1:]]

    def _input(self, tensors: Tensors) -> torch.Tensor:
        first, *others = (tensors[name] for name in self.source.sequences)
        # PyTorch computes nothing for a sequence without steps or rows.
        if first.dim() != 3 or first.numel() == 0 or any(other.shape != first.shape for other in others):
            raise MisfitError
        return sum(others, first)

    def _lengths(self, tensors: Tensors, x: torch.Tensor) -> torch.Tensor | None:
        """Return lengths from 0 to T, int64; None where all are seen to be T. Caffe2 treats others like these."""
        if self.cell.lengths is None:
            return None
        lengths = tensors[self.cell.lengths]
        if lengths.is_floating_point() or lengths.shape != x.shape[1:2]:
            raise MisfitError
        if lengths.device.type == "cpu" and not torch.compiler.is_compiling() and bool((lengths >= x.shape[0]).all()):
            return None
        return lengths.to(torch.int64).clamp(0, x.shape[0])

    def _weights(self, tensors: Tensors, x: torch.Tensor, width: int) -> list[torch.Tensor]:
        """Return the weights of the input and of h, and their biases where there are any."""
        order = _GATES[self.cell.kind]
        gates = [self.cell.gates[k] for k in order]
        if self.source.columns is None:
            size = len(gates) * width
            if x.shape[2] != size:
                raise MisfitError
            eye = torch.eye(size, dtype=x.dtype, device=x.device)
            inputs = torch.cat([_rows(eye, gate.rows[0], width) for gate in gates])
        else:
            inputs = _matrix(tensors, [self.source.columns[k] for k in order], width, x.shape[2])
        weights = [inputs, _matrix(tensors, [gate.recurrent for gate in gates], width, width)]
        biases = [(self.source.biases[k], gate.constant) for k, gate in zip(order, gates, strict=True)]
        biases += [(gate.recurrent_biases, 0.0) for gate in gates]
        if any(columns or constant for columns, constant in biases):
            made = [_bias(tensors, columns, constant, x.new_zeros(width)) for columns, constant in biases]
            weights += [torch.cat(made[: len(gates)]), torch.cat(made[len(gates) :])]
        if len({weight.dtype for weight in (x, *weights)}) > 1:
            raise MisfitError
        return weights

    def _compute(
        self, x: torch.Tensor, starts: Sequence[torch.Tensor], weights: list[torch.Tensor]
    ) -> tuple[torch.Tensor, ...]:
        has_biases, training = len(weights) > 2, torch.is_grad_enabled()
        options = (has_biases, 1, 0.0, training, False, False)
        name = _RNNS[self.cell.activation] if self.cell.kind == "RNN" else self.cell.kind.lower()
        start = tuple(starts) if self.cell.kind == "LSTM" else starts[0]
        results: tuple[torch.Tensor, ...] = getattr(torch, name)(x, start, weights, *options)
        return results


def _initial(value: torch.Tensor, x: torch.Tensor, width: int) -> torch.Tensor:
    """Return an initial state as [1, N, H]; a vector serves the whole batch."""
    batch = x.shape[1]
    if value.dtype != x.dtype or value.shape not in ((width,), (batch, width), (1, batch, width)):
        raise MisfitError
    return value.expand(1, batch, width).contiguous()


def _rows(matrix: torch.Tensor, columns: Columns[str], width: int) -> torch.Tensor:
    """Return the part of a matrix or vector that makes a gate."""
    start, end = (bound * matrix.shape[0] for bound in columns.part)
    if end - start != width or start.denominator != 1:
        raise MisfitError
    return matrix[int(start) : int(end)]


def _matrix(tensors: Tensors, gates: Sequence[Columns[str]], width: int, features: int) -> torch.Tensor:
    """Stack the matrices of all gates, [gates * H, features]; a matrix of all of them, in order, is not copied."""
    matrices = [tensors[gate.value] for gate in gates]
    if any(matrix.dim() != 2 or matrix.shape[1] != features for matrix in matrices):
        raise MisfitError
    pieces = [_rows(matrix, gate, width) for matrix, gate in zip(matrices, gates, strict=True)]
    starts = [gate.part[0] * len(gates) for gate in gates]
    if len({gate.value for gate in gates}) == 1 and starts == [*range(len(gates))]:
        return matrices[0]
    return torch.cat(pieces)


def _bias(tensors: Tensors, columns: Sequence[Columns[str]], constant: float, zero: torch.Tensor) -> torch.Tensor:
    total = zero + constant if constant else zero
    for part in columns:
        vector = tensors[part.value]
        if vector.dim() != 1:
            raise MisfitError
        total = total + (vector if vector.shape[0] == 1 else _rows(vector, part, zero.shape[0]))
    return total


def _contiguous(weights: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the weights as parts of one tensor, as cuDNN wants them; other computations take them as they are."""
    if not weights[0].is_cuda:
        return list(weights)
    flat = torch.cat([weight.reshape(-1) for weight in weights])
    parts = flat.split([weight.numel() for weight in weights])
    return [part.view(weight.shape) for part, weight in zip(parts, weights, strict=True)]


def _freeze_cell_state(
    x: torch.Tensor, weight: torch.Tensor, lengths: torch.Tensor, width: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Extend the input and the weights of an LSTM, so that c stays what it is past the end of a row.

    PyTorch returns c after T steps alone. One more input, 0 within a row and 1 past its end, closes the input gate and
    opens the forget gate: c' = 1 * c + 0 * g. The others are 0 there, so that no infinity in the padding is added.
    """
    past = torch.arange(x.shape[0], device=x.device)[:, None, None] >= lengths[:, None]
    gates = torch.tensor([-_SATURATING, _SATURATING, 0.0, 0.0], dtype=weight.dtype, device=weight.device)
    column = gates.repeat_interleave(width)[:, None]
    return torch.cat([torch.where(past, 0, x), past.to(x.dtype)], 2), torch.cat([weight, column], 1)

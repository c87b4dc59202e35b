"""The modules that are exported: PyTorch's recurrent modules, and models around them."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def scripted(module: nn.Module) -> nn.Module:
    """Return a module in TorchScript, of which PyTorch says that it is deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.script(module)


class Recurrent(nn.Module):
    """``nn.LSTM``, ``nn.GRU`` or ``nn.RNN``, whose initial states are inputs one by one where they are given."""

    def __init__(self, rnn: nn.Module) -> None:
        super().__init__()
        self.rnn = rnn

    def forward(self, x: Tensor, *states: Tensor) -> Any:
        return self.rnn(x, _states(states))


class Packed(nn.Module):
    """The same on a packed sequence, whose lengths are an input."""

    def __init__(self, rnn: nn.Module, *, batch_first: bool = False, enforce_sorted: bool = True) -> None:
        super().__init__()
        self.rnn = rnn
        self.batch_first = batch_first
        self.enforce_sorted = enforce_sorted

    def forward(self, x: Tensor, lengths: Tensor, *states: Tensor) -> Any:
        packed = pack_padded_sequence(x, lengths, self.batch_first, self.enforce_sorted)
        y, last = self.rnn(packed, _states(states))
        return pad_packed_sequence(y, self.batch_first)[0], last  # the lengths are int32 in the export, int64 in torch


def _states(states: tuple[Tensor, ...]) -> Any:
    return states if len(states) > 1 else states[0] if states else None


class Unrolled(nn.Module):
    """A cell in a loop of Python: the exporters see as many cells as there were steps."""

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Tensor, *states: Tensor) -> Any:
        state: Any = _states(states)
        rows = []
        for t in range(x.shape[0]):
            state = self.cell(x[t], state)
            rows.append(state[0] if isinstance(state, tuple) else state)
        return torch.stack(rows), state


class WrittenGRU(nn.Module):
    """``nn.GRUCell`` written out: the exporter of TorchScript has no word for the cell itself in a script."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.input = nn.Linear(inputs, 3 * hidden)
        self.hidden = nn.Linear(hidden, 3 * hidden)

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        xr, xz, xn = self.input(x).chunk(3, 1)
        hr, hz, hn = self.hidden(h).chunk(3, 1)
        z = torch.sigmoid(xz + hz)
        n = torch.tanh(xn + torch.sigmoid(xr + hr) * hn)
        return n + z * (h - n)


class WrittenRNN(nn.Module):
    """``nn.RNNCell`` written out."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.input = nn.Linear(inputs, hidden)
        self.hidden = nn.Linear(hidden, hidden)

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        return torch.tanh(self.input(x) + self.hidden(h))


class LoopOfOne(nn.Module):
    """A cell of one state in a loop of TorchScript, which collects its rows in a list."""

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        rows: list[Tensor] = []
        for t in range(x.size(0)):
            h = self.cell(x[t], h)
            rows.append(h)
        return torch.stack(rows), h


class LoopOfTwo(nn.Module):
    """A cell of two states in a loop of TorchScript."""

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        rows: list[Tensor] = []
        for t in range(x.size(0)):
            h, c = self.cell(x[t], (h, c))
            rows.append(h)
        return torch.stack(rows), h, c


class LoopOverRows(nn.Module):
    """A loop over the rows themselves, not their numbers; joined along the batch."""

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        rows: list[Tensor] = []
        for row in x.unbind(0):
            h = self.cell(row, h)
            rows += [h]
        return torch.cat(rows, 1), h


class LoopInTime(nn.Module):
    """TorchScript's benchmark form: states in a loop, rows stacked in dim 1, the last one read from the list."""

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        rows: list[Tensor] = []
        for t in range(x.size(1)):
            h = self.cell(x[:, t], h)
            rows.append(h)
        return torch.stack(rows, 1), rows[-1]


class LoopWithoutList(nn.Module):
    """A loop of TorchScript that leaves only states, and ends when they are large."""

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        t = 0
        while t < x.size(0) and bool(h.abs().sum() < 4.0):
            h = self.cell(x[t], h)
            t += 1
        return h, torch.tensor(t)


class LanguageModel(nn.Module):
    """Embedding, LSTM, Linear, log_softmax."""

    def __init__(self, *, batch_first: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 4)
        self.lstm = nn.LSTM(4, 6, 2, batch_first=batch_first, dropout=0.5)
        self.out = nn.Linear(6, 11)

    def forward(self, tokens: Tensor, h: Tensor, c: Tensor) -> Any:
        y, state = self.lstm(self.embedding(tokens), (h, c))
        return torch.log_softmax(self.out(y), -1), state


class Classifier(nn.Module):
    """A bidirectional LSTM over packed words; both directions' last states say the class."""

    def __init__(self, *, packed: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 4, padding_idx=0)
        self.lstm = nn.LSTM(4, 5, bidirectional=True, batch_first=True)
        self.out = nn.Linear(10, 3)
        self.packed = packed

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        words: Any = self.embedding(tokens)
        if self.packed:
            words = pack_padded_sequence(words, lengths, batch_first=True)
        _, (h, _) = self.lstm(words)
        return torch.softmax(self.out(torch.cat([h[-2], h[-1]], -1)), -1)


class Attention(nn.Module):
    """A GRU, attention of its last state over all steps with the padding masked, and a sigmoid."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(4, 6, batch_first=True)
        self.score = nn.Linear(6, 6, bias=False)
        self.out = nn.Linear(12, 1)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        y, h = self.gru(x)
        scores = torch.bmm(self.score(y), h[0].unsqueeze(2)).squeeze(2)
        steps = torch.arange(x.size(1)).unsqueeze(0)
        scores = scores.masked_fill(steps >= lengths.unsqueeze(1), -1e9)
        context = torch.bmm(torch.softmax(scores, 1).unsqueeze(1), y).squeeze(1)
        return torch.sigmoid(self.out(torch.cat([context, h[0]], 1))).squeeze(1)


class LastStep(nn.Module):
    """What a GRU gave at the last valid step of each sequence, found by gather."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(4, 6, batch_first=True)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        y, _ = self.gru(x)
        places = (lengths - 1).view(-1, 1, 1).expand(-1, 1, y.size(2))
        return y.gather(1, places).squeeze(1)


class Speech(nn.Module):
    """Convolution over time, layer norm, a bidirectional GRU, Linear, log_softmax: the head of a CTC model."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(4, 8, 3, padding=1)
        self.norm = nn.LayerNorm(8)
        self.gru = nn.GRU(8, 5, bidirectional=True)
        self.out = nn.Linear(10, 7)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.nn.functional.gelu(self.conv(x.permute(1, 2, 0)))
        y, _ = self.gru(self.norm(x.permute(2, 0, 1)))
        return torch.log_softmax(self.out(y), 2)


class Translator(nn.Module):
    """An encoder whose state starts a decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.LSTM(4, 6, 2)
        self.embedding = nn.Embedding(11, 4)
        self.decoder = nn.LSTM(4, 6, 2)
        self.out = nn.Linear(6, 11)

    def forward(self, x: Tensor, tokens: Tensor) -> Any:
        _, state = self.encoder(x)
        y, _ = self.decoder(self.embedding(tokens), state)
        scores = self.out(y)
        return scores, scores.argmax(-1)


class Scanned(nn.Module):
    """A step under torch's ``scan``."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(10, 6)

    def forward(self, x: Tensor, h: Tensor) -> Any:
        from torch._higher_order_ops.scan import scan

        def step(state: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
            new = torch.tanh(self.cell(torch.cat([row, state], 1)))
            return new, new.clone()

        return scan(step, h, x, dim=0)


class Chosen(nn.Module):
    """One of two recurrent layers, chosen by the input."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 6)
        self.b = nn.Linear(4, 6)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda v: torch.tanh(self.a(v)), lambda v: torch.relu(self.b(v)), (x,))

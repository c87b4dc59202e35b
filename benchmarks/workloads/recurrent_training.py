"""Training nets with an LSTM of any size, and the same steps in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from conformance.recording import operator

from caffe2_bridge.builder import BasicRNNCell, Cell, GRUCell, LSTMCell, Net, fc
from caffe2_bridge.gradients import add_gradient_operators, recompute_steps
from workloads.training import Workload, fills

RATE: Final = 0.1


class Size(NamedTuple):
    """Steps, batch, features of the input, features of the state."""

    steps: int
    batch: int
    features: int
    hidden: int


CHAR: Final = Size(32, 16, 94, 192)
LARGE: Final = Size(100, 16, 256, 512)


def char_lstm(size: Size = CHAR) -> Workload:
    """Return a prediction of the next of one-hot characters: an LSTM, a product, Softmax, cross entropy, Adagrad."""
    net = _recurrent("char_lstm", LSTMCell(name="rnn", input_size=size.features, hidden_size=size.hidden), ("h0", "c0"))
    flat, _ = net.Reshape("rnn/hidden_state_all", ["flat", "_"], shape=[-1, size.hidden])
    scores = fc(net, flat, "pred", size.hidden, size.features)
    net.SoftmaxWithLoss([scores, "label"], ["softmax", "loss"])
    made = add_gradient_operators(net.proto, ["loss"])
    values: dict[str, Any] = dict(net.model().params)
    for name in list(values):
        moment = f"{name}_moment"
        operands = [name, moment, str(made.gradients[name]), "lr"]
        made.net.op.append(operator("Adagrad", operands, [name, moment], epsilon=1e-4))
        values[moment] = np.zeros_like(values[name])
    random = np.random.default_rng(0)
    letters = random.integers(size.features, size=(size.steps, size.batch))
    feed = {
        **_states(size),
        "x": np.eye(size.features, dtype=np.float32)[letters],
        "label": random.integers(size.features, size=size.steps * size.batch).astype(np.int32),
    }
    made.net.external_input.extend(["label", "lr", *values])
    return Workload(made.net, fills({**values, "lr": np.full(1, -RATE)}), feed, "loss")


def large_lstm(size: Size = LARGE, *, recompute: bool = False) -> Workload:
    """Return the gradients of the parameters of an LSTM from a gradient of its hidden states.

    With ``recompute``, the backward steps compute the gates again.
    """
    cell = LSTMCell(name="rnn", input_size=size.features, hidden_size=size.hidden)
    net = _recurrent("large_lstm", cell, ("h0", "c0"))
    return _gradients(net, "rnn/hidden_state_all", size, recompute=recompute)


def large_gru(size: Size = LARGE) -> Workload:
    """Return the same as :func:`large_lstm`, for a GRU."""
    cell = GRUCell(name="rnn", input_size=size.features, hidden_size=size.hidden, linear_before_reset=True)
    return _gradients(_recurrent("large_gru", cell, ("h0",)), "rnn/hidden_t_all", size)


def large_rnn(size: Size = LARGE) -> Workload:
    """Return the same as :func:`large_lstm`, for a basic RNN."""
    cell = BasicRNNCell(name="rnn", input_size=size.features, hidden_size=size.hidden)
    return _gradients(_recurrent("large_rnn", cell, ("h0",), lengths=None), "rnn/hidden_t_all", size)


def _gradients(net: Net, hidden: str, size: Size, *, recompute: bool = False) -> Workload:
    made = add_gradient_operators(net.proto, {hidden: "dy"})
    values = dict(net.model().params)
    made.net.external_input.extend(["dy", *values])
    random = np.random.default_rng(0)
    feed = {
        **_states(size),
        "x": random.standard_normal((size.steps, size.batch, size.features), np.float32),
        "dy": random.standard_normal((size.steps, size.batch, size.hidden), np.float32) / 100,
    }
    first, *others = (str(made.gradients[name]) for name in values)
    trained = recompute_steps(made.net) if recompute else made.net
    return Workload(trained, fills(values), feed, first, others=tuple(others))


def _recurrent(name: str, cell: Cell, states: tuple[str, ...], lengths: str | None = "lengths") -> Net:
    net = Net(name)
    net.add_external_input("x", "lengths", "h0", "c0")
    cell.apply_over_sequence(net, "x", lengths, states)
    return net


def _states(size: Size) -> dict[str, np.ndarray[Any, Any]]:
    zeros = np.zeros((1, size.batch, size.hidden), np.float32)
    return {"lengths": np.full(size.batch, size.steps, np.int32), "h0": zeros, "c0": zeros}


def torch_step(name: str, feed: Mapping[str, Any], device: str = "cpu") -> Callable[[], Any]:
    """Return a step of a workload in PyTorch, from random parameters."""
    import torch
    from torch import nn

    x, h0, c0 = (torch.from_numpy(feed[key]).to(device) for key in ("x", "h0", "c0"))
    features, hidden = x.shape[-1], feed["h0"].shape[-1]
    if name.startswith("large"):
        made = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}[name.removesuffix(", recomputed").split()[1]]
        layer = made(features, hidden).to(device)
        initial = (h0, c0) if isinstance(layer, nn.LSTM) else h0
        gradient = torch.from_numpy(feed["dy"]).to(device)

        def backward() -> None:
            layer.zero_grad()
            layer(x, initial)[0].backward(gradient)

        return backward
    lstm, state = nn.LSTM(features, hidden).to(device), (h0, c0)
    last = nn.Linear(hidden, features).to(device)
    label = torch.from_numpy(feed["label"]).long().to(device)
    optimizer = torch.optim.Adagrad([*lstm.parameters(), *last.parameters()], lr=RATE)

    def step() -> None:
        optimizer.zero_grad()
        scores = last(lstm(x, state)[0].reshape(-1, hidden))
        nn.functional.cross_entropy(scores, label).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step

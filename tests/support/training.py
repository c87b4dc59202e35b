"""Training programs: recorded ones, and a small one that is made here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from caffe2_backend import Workspace
from caffe2_bridge.builder import Net
from caffe2_bridge.gradients import add_gradient_operators
from caffe2_bridge.model import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from support.paths import SUPPORT

PROGRAMS: Final = SUPPORT / "data" / "training"
Arrays = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Program:
    """A training program that real Caffe2 ran: nets, what it fed each step, the losses and the final blobs."""

    folder: Path
    train: NetDef
    init: NetDef
    loss: str
    feeds: list[Arrays]
    losses: list[float]
    final: Arrays

    @property
    def model(self) -> Model:
        """The nets as a model."""
        return Model.of(self.train, self.init)

    @property
    def inputs(self) -> dict[str, tuple[Any, list[Any]]]:
        """Types and shapes of the data, with an open batch dim."""
        return {name: (value.dtype, ["N", *value.shape[1:]]) for name, value in self.feeds[0].items()}


def read_program(name: str | Path) -> Program:
    """Read a recorded program, by name or by folder."""
    folder = PROGRAMS / name
    description = json.loads((folder / "program.json").read_text())
    with np.load(folder / "feeds.npz") as feeds, np.load(folder / "expected.npz") as expected:
        steps = [dict(_of(feeds, f"{step}/")) for step in range(description["steps"])]
        losses = [float(expected[f"{step}/{description['loss']}"]) for step in range(description["steps"])]
        final = dict(_of(expected, "final/"))
    train, init = (NetDef.FromString((folder / f"{kind}_net.pb").read_bytes()) for kind in ("train", "init"))
    return Program(folder, train, init, description["loss"], steps, losses, final)


def replay(program: Program, workspace: Workspace) -> Iterator[Any]:
    """Train a program in a workspace: the loss after each step."""
    workspace.run_net_once(program.init)
    net = workspace.create_net(program.train)
    for feed in program.feeds:
        for name, value in feed.items():
            workspace.feed(name, value)
        workspace.run_net(net)
        yield workspace.fetch(program.loss)


def _of(file: Any, prefix: str) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    for key in file.files:
        if key.startswith(prefix):
            yield key.removeprefix(prefix), file[key]


def linear_classifier(rate: float = 0.1) -> tuple[NetDef, NetDef]:
    """Return a train net ``data, label -> loss`` with momentum, a counter and a metric, and its init net."""
    net = Net("linear")
    net.add_external_input("data", "label", "w", "b", "w_momentum", "rate", "mutex", "iter")
    net.op("FC", ["data", "w", "b"], "scores")
    net.op("SoftmaxWithLoss", ["scores", "label"], ["prob", "loss"])
    net.op("Accuracy", ["prob", "label"], "accuracy")
    made = add_gradient_operators(net.proto, ["loss"]).net
    whole = Net("linear")
    whole.extend(made.op)
    whole.add_external_input(*made.external_input)
    whole.op("AtomicIter", ["mutex", "iter"], ["iter"])
    whole.op("MomentumSGDUpdate", ["w_grad", "w_momentum", "rate", "w"], ["w_grad", "w_momentum", "w"], momentum=0.9)
    whole.op("WeightedSum", ["b", "one", "b_grad", "minus"], ["b"])
    init = Net("linear_init")
    init.op("GivenTensorFill", [], ["w"], shape=[3, 4], values=np.linspace(-1, 1, 12).astype(np.float32).tolist())
    for name, shape, value in (("b", [3], 0.5), ("w_momentum", [3, 4], 0.0), ("rate", [1], rate),
                               ("one", [1], 1.0), ("minus", [1], -rate)):  # fmt: skip
        init.op("ConstantFill", [], [name], shape=shape, value=value)
    init.op("CreateMutex", [], ["mutex"])
    init.op("ConstantFill", [], ["iter"], shape=[1], value=0, dtype=10)
    return whole.proto, init.proto


def classifier_data(count: int, seed: int = 0) -> Arrays:
    """Return data for ``linear_classifier``: rows of four features, and the class of each."""
    rng = np.random.default_rng(seed)
    data = rng.standard_normal((count, 4)).astype(np.float32)
    return {"data": data, "label": np.argmax(data[:, :3], axis=1).astype(np.int32)}

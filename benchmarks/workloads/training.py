"""Training nets of any size for the benchmark, with their gradients and optimizers, and the same steps in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from conformance.recording import operator
from support.paths import GOLDEN

from caffe2_bridge.gradients import add_gradient_operators
from caffe2_bridge.proto.caffe2_pb2 import NetDef

RECORDED: Final = GOLDEN / "training"
TOUCHED: Final = 200
WIDTH: Final = 32
Arrays = dict[str, np.ndarray[Any, Any]]
Parameters = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Workload:
    """A net to train, what is fed, and the output that is compared; ``exact`` if no parameter is random.

    ``others`` are further outputs, which are computed but not compared.
    """

    net: NetDef
    init: NetDef
    feed: Arrays
    result: str
    exact: bool = True
    others: tuple[str, ...] = ()

    def write(self, folder: Path) -> None:
        """Write the files that contenders read."""
        folder.mkdir()
        net = NetDef()
        net.CopyFrom(self.net)
        del net.external_output[:]
        net.external_output.extend([self.result, *self.others])
        (folder / "predict_net.pb").write_bytes(net.SerializeToString())
        (folder / "init_net.pb").write_bytes(self.init.SerializeToString())
        np.savez(folder / "feed.npz", **self.feed)  # type: ignore[arg-type] # names are blobs


def recorded(name: str) -> Workload:
    """Return a program recorded from real Caffe2, with the data of its first step."""
    folder = RECORDED / name
    feeds = np.load(folder / "feeds.npz")
    feed = {key.partition("/")[2]: feeds[key] for key in feeds.files if key.startswith("0/")}
    return Workload(
        NetDef.FromString((folder / "train_net.pb").read_bytes()),
        NetDef.FromString((folder / "init_net.pb").read_bytes()),
        feed,
        "loss",
    )


def lenet() -> Workload:
    """Return LeNet on 64 pictures, SGD."""
    ops = [
        operator("Conv", ["data", "c1_w", "c1_b"], ["c1"], kernel=5),
        operator("MaxPool", ["c1"], ["p1"], kernel=2, stride=2),
        operator("Conv", ["p1", "c2_w", "c2_b"], ["c2"], kernel=5),
        operator("MaxPool", ["c2"], ["p2"], kernel=2, stride=2),
        operator("FC", ["p2", "f1_w", "f1_b"], ["f1"]),
        operator("Relu", ["f1"], ["f1"]),
        operator("FC", ["f1", "f2_w", "f2_b"], ["pred"]),
        operator("SoftmaxWithLoss", ["pred", "label"], ["softmax", "loss"]),
    ]
    shapes = {
        "c1_w": (20, 1, 5, 5), "c1_b": (20,), "c2_w": (50, 20, 5, 5), "c2_b": (50,),
        "f1_w": (500, 800), "f1_b": (500,), "f2_w": (10, 500), "f2_b": (10,),
    }  # fmt: skip
    return _sgd("lenet", ops, shapes, (64, 1, 28, 28), 10)


def mlp(width: int = 2048) -> Workload:
    """Return two hidden layers: products of width x width x width, SGD."""
    ops = [
        operator("FC", ["data", "f1_w", "f1_b"], ["f1"]),
        operator("Relu", ["f1"], ["f1"]),
        operator("FC", ["f1", "f2_w", "f2_b"], ["f2"]),
        operator("Relu", ["f2"], ["f2"]),
        operator("FC", ["f2", "f3_w", "f3_b"], ["pred"]),
        operator("SoftmaxWithLoss", ["pred", "label"], ["softmax", "loss"]),
    ]
    shapes: Parameters = {
        "f1_w": (width, width), "f1_b": (width,), "f2_w": (width, width), "f2_b": (width,),
        "f3_w": (10, width), "f3_b": (10,),
    }  # fmt: skip
    return _sgd("mlp", ops, shapes, (width, width), 10)


def _sgd(name: str, ops: list[Any], shapes: Parameters, data: tuple[int, ...], classes: int) -> Workload:
    random = np.random.default_rng(0)
    made = add_gradient_operators(NetDef(name=name, op=ops), ["loss"])
    net = made.net
    net.op.extend(operator("WeightedSum", [p, "one", str(made.gradients[p]), "lr"], [p]) for p in shapes)
    values = {p: random.standard_normal(s).astype(np.float32) / np.sqrt(s[-1] * 5) for p, s in shapes.items()}
    net.external_input.extend(["data", "label", "one", "lr", *shapes])
    feed = {
        "data": random.standard_normal(data).astype(np.float32),
        "label": random.integers(0, classes, data[0]).astype(np.int32),
    }
    return Workload(net, fills({**values, "lr": np.full(1, -1e-3), "one": np.ones(1)}), feed, "loss")


def fills(values: Arrays) -> NetDef:
    """Return the net that fills parameters."""
    fills = [
        operator("GivenTensorFill", [], [name], shape=list(value.shape), values=value.reshape(-1).tolist())
        for name, value in values.items()
    ]
    return NetDef(name="init", op=fills)


def embedding(rows: int, optimizer: str, *, repeated: bool = False) -> Workload:
    """Return a lookup of 200 rows in a table, and their update; ``repeated`` draws them by Zipf's law, as words are."""
    random = np.random.default_rng(0)
    ops = [operator("Gather", ["table", "ids"], ["found"])]
    if optimizer == "sgd":
        ops.append(operator("ScatterWeightedSum", ["table", "one", "ids", "grad", "lr"], ["table"]))
    else:
        ops.append(operator("SparseAdagrad", ["table", "moment", "ids", "grad", "lr"], ["table", "moment"]))
    net = NetDef(name="embedding", op=ops, external_input=["table", "ids", "grad", "lr", "one", "moment"])
    fills = [
        operator("UniformFill", [], ["table"], shape=[rows, WIDTH], min=-1.0, max=1.0),
        operator("ConstantFill", [], ["moment"], shape=[rows, WIDTH], value=0.0),
        operator("ConstantFill", [], ["one"], shape=[1], value=1.0),
        operator("ConstantFill", [], ["lr"], shape=[1], value=-1e-3),
    ]
    ids = random.choice(rows, TOUCHED, replace=False)
    if repeated:
        ids = np.minimum(random.zipf(1.2, TOUCHED), rows) - 1
    feed = {
        "ids": ids,
        "grad": random.standard_normal((TOUCHED, WIDTH)).astype(np.float32),
    }
    return Workload(net, NetDef(name="init", op=fills), feed, "found", exact=False)


def torch_step(name: str, feed: Mapping[str, Any], device: str = "cpu") -> Callable[[], Any] | None:
    """Return a step of a workload in PyTorch, from random parameters; None for the recorded programs."""
    import torch
    from torch import nn

    if name in ("lenet", "mlp"):
        data, label = torch.from_numpy(feed["data"]).to(device), torch.from_numpy(feed["label"]).long().to(device)
        layers = (
            [nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.Flatten(),
             nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10)]
            if name == "lenet"
            else [nn.Linear(data.shape[1], data.shape[1]), nn.ReLU(), nn.Linear(data.shape[1], data.shape[1]),
                  nn.ReLU(), nn.Linear(data.shape[1], 10)]
        )  # fmt: skip
        model = nn.Sequential(*layers).to(device)
        sgd = torch.optim.SGD(model.parameters(), lr=1e-3)

        def step() -> None:
            sgd.zero_grad()
            nn.functional.cross_entropy(model(data), label).backward()  # type: ignore[no-untyped-call]
            sgd.step()

        return step
    if name.startswith("embedding"):
        _, kind, rows = name.split()
        table = nn.Parameter(torch.rand(int(rows) if rows.isdigit() else 500_000, WIDTH, device=device))
        ids, grad = torch.from_numpy(feed["ids"]).to(device), torch.from_numpy(feed["grad"]).to(device)
        makers = {"sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad, "adam": torch.optim.SparseAdam}
        optimizer = makers[kind]([table], lr=1e-3)

        def sparse_step() -> None:
            optimizer.zero_grad()
            nn.functional.embedding(ids, table, sparse=True).backward(grad)  # type: ignore[no-untyped-call]
            optimizer.step()

        return sparse_step
    return None

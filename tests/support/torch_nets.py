"""Writes small nets of random weights as PyTorch's Caffe2 backend does: torch_nets.py FOLDER.

Runs in real Caffe2's python (PyTorch 1.9) and imports nothing of this project. Each net gets a folder with
``init_net.pb``, ``predict_net.pb`` and ``expected.npz``: its inputs, and PyTorch's outputs as ``out0``, ``out1`` ...
"""
# The interpreter that runs this has another PyTorch, and another NumPy.
# mypy: ignore-errors
# ruff: noqa: ANN001, ANN002, ANN201, ANN204, B905, RUF007 - Python 3.8, and a PyTorch that has no types here

import io
import sys
from pathlib import Path

import numpy as np
import onnx
import torch
from caffe2.python.onnx.backend import Caffe2Backend
from torch import nn

CLASSES = 3
TABLES = 3


def block(before, after):
    """Return a convolution and its activation."""
    return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.ReLU())


class UNet(nn.Module):
    """One level of a U-Net with nearest upsampling."""

    def __init__(self):
        super().__init__()
        self.down, self.pool, self.bottom = block(3, 4), nn.MaxPool2d(2), block(4, 6)
        self.up, self.last = nn.Upsample(scale_factor=2, mode="nearest"), nn.Conv2d(10, 2, 3, padding=1)

    def forward(self, x):
        """[N, 3, H, W] -> [N, 2, H, W]."""
        skipped = self.down(x)
        return self.last(torch.cat([skipped, self.up(self.bottom(self.pool(skipped)))], 1))


class Ssd(nn.Module):
    """Boxes and classes of six scales."""

    def __init__(self):
        super().__init__()
        widths = [3, 2, 2, 2, 2, 2, 2]
        self.features = nn.ModuleList(
            nn.Sequential(nn.Conv2d(a, b, 3, stride=2, padding=1), nn.ReLU()) for a, b in zip(widths, widths[1:])
        )
        self.boxes = nn.ModuleList(nn.Conv2d(width, 2 * 4, 1) for width in widths[1:])
        self.scores = nn.ModuleList(nn.Conv2d(width, 2 * CLASSES, 1) for width in widths[1:])

    def forward(self, x):
        """[N, 3, H, W] -> [N, boxes, 4], [N, boxes, classes]."""
        boxes, scores = [], []
        for features, box, score in zip(self.features, self.boxes, self.scores):
            x = features(x)
            boxes.append(box(x).permute(0, 2, 3, 1).contiguous().view(x.size(0), -1, 4))
            scores.append(score(x).permute(0, 2, 3, 1).contiguous().view(x.size(0), -1, CLASSES))
        return torch.cat(boxes, 1), torch.softmax(torch.cat(scores, 1), 2)


class SuperResolution(nn.Module):
    """The net of PyTorch's tutorial, of one image size."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 2, 5, padding=2), nn.ReLU(), block(2, 2), block(2, 4), nn.Conv2d(4, 9, 3, padding=1)
        )
        self.shuffle = nn.PixelShuffle(3)

    def forward(self, x):
        """[1, 1, 6, 6] -> [1, 1, 18, 18]."""
        return self.shuffle(self.layers(x))


class BothDirections(nn.Module):
    """A bidirectional LSTM and a bidirectional GRU."""

    def __init__(self):
        super().__init__()
        self.lstm, self.gru = nn.LSTM(3, 2, bidirectional=True), nn.GRU(4, 2, bidirectional=True)
        self.last = nn.Linear(4, 3)

    def forward(self, x):
        """[T, N, 3] -> [T, N, 3]."""
        return self.last(self.gru(self.lstm(x)[0])[0])


class Classifier(nn.Module):
    """The last states of an LSTM of two layers in both directions."""

    def __init__(self):
        super().__init__()
        self.words, self.lstm = nn.Embedding(20, 3), nn.LSTM(3, 2, num_layers=2, bidirectional=True)
        self.last = nn.Linear(4, 3)

    def forward(self, x):
        """[T, N] -> [N, 3]."""
        _, (last, _) = self.lstm(self.words(x))
        return self.last(torch.cat([last[-2], last[-1]], 1))


def separable(before, after, stride=1):
    """Return a convolution of volumes as one of images and one along time."""
    between = (before * after * 27) // (before * 9 + 3 * after)
    return nn.Sequential(
        nn.Conv3d(before, between, (1, 3, 3), (1, stride, stride), (0, 1, 1), bias=False),
        nn.BatchNorm3d(between),
        nn.ReLU(),
        nn.Conv3d(between, after, (3, 1, 1), (stride, 1, 1), (1, 0, 0), bias=False),
        nn.BatchNorm3d(after),
    )


class R2Plus1D(nn.Module):
    """Two residual blocks of separable convolutions of volumes."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(separable(1, 2), nn.ReLU())
        self.first = nn.Sequential(separable(2, 2), nn.ReLU(), separable(2, 2))
        self.second = nn.Sequential(separable(2, 3, 2), nn.ReLU(), separable(3, 3))
        self.down = nn.Sequential(nn.Conv3d(2, 3, 1, 2, bias=False), nn.BatchNorm3d(3))
        self.pool, self.last = nn.AdaptiveAvgPool3d(1), nn.Linear(3, 3)
        for each in filter(lambda each: isinstance(each, nn.BatchNorm3d), self.modules()):
            for values in (each.running_mean, each.bias.data):
                values.normal_()
            for values in (each.running_var, each.weight.data):
                values.uniform_(0.5, 2)

    def forward(self, x):
        """[N, 1, 4, 6, 6] -> [N, 3]."""
        x = self.stem(x)
        x = torch.relu(x + self.first(x))
        x = torch.relu(self.down(x) + self.second(x))
        return self.last(self.pool(x).flatten(1))


class Dlrm(nn.Module):
    """Products of embeddings with each other and with dense features."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(10, 4) for _ in range(TABLES))
        self.bottom = nn.Sequential(nn.Linear(5, 4), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(10, 3), nn.ReLU(), nn.Linear(3, 1), nn.Sigmoid())

    def forward(self, dense, *ids):
        """[N, 5] and indices [N, 3] of each table -> [N, 1]."""
        x = self.bottom(dense)
        rows = [torch.sum(table(each), 1) for table, each in zip(self.tables, ids)]
        stacked = torch.cat([x, *rows], dim=1).view(x.size(0), -1, 4)
        products = torch.bmm(stacked, torch.transpose(stacked, 1, 2))
        return self.top(torch.cat([x, products.view(products.size(0), -1)[:, :6]], dim=1))


def main(folder):
    """Make all nets."""
    torch.manual_seed(0)
    random = np.random.RandomState(0)
    image = {"x": random.rand(1, 3, 16, 16)}
    words = {name: random.randint(0, 10, (2, 3)) for name in ("a", "b", "c")}
    open_image, open_sequence = {0: "N", 2: "H", 3: "W"}, {0: "T", 1: "N"}
    write(folder / "unet", UNet(), image, {"x": open_image})
    write(folder / "ssd", Ssd(), image, {"x": open_image})
    write(folder / "super_resolution", SuperResolution(), {"x": random.rand(1, 1, 6, 6)}, {})
    write(folder / "both_directions", BothDirections(), {"x": random.rand(6, 2, 3)}, {"x": open_sequence})
    write(folder / "classifier", Classifier(), {"x": random.randint(0, 20, (6, 2))}, {"x": open_sequence})
    write(folder / "r2plus1d", R2Plus1D(), {"x": random.rand(1, 1, 4, 6, 6)}, {"x": {0: "N"}})
    write(folder / "dlrm", Dlrm(), {"d": random.rand(2, 5), **words}, {name: {0: "N"} for name in ("d", *words)})


def write(folder, model, feeds, axes):
    """Write the net of a model, and what it computes of ``feeds``; ``axes`` are the symbolic dims of its inputs."""
    feeds = {name: array.astype(np.float32) if array.dtype.kind == "f" else array for name, array in feeds.items()}
    operands, file = tuple(map(torch.from_numpy, feeds.values())), io.BytesIO()
    with torch.no_grad():
        results = model.eval()(*operands)
        torch.onnx.export(
            model, operands, file, opset_version=9, input_names=[*feeds], dynamic_axes=axes,
            keep_initializers_as_inputs=True, training=torch.onnx.TrainingMode.PRESERVE,
        )  # fmt: skip
    nets = Caffe2Backend.onnx_graph_to_caffe2_net(onnx.load_from_string(file.getvalue()))
    folder.mkdir(parents=True, exist_ok=True)
    for name, net in zip(("init_net.pb", "predict_net.pb"), nets):
        (folder / name).write_bytes(net.SerializeToString())
    results = results if isinstance(results, tuple) else (results,)
    outputs = {f"out{index}": result.numpy() for index, result in enumerate(results)}
    np.savez_compressed(str(folder / "expected.npz"), **feeds, **outputs)


main(Path(sys.argv[1]))

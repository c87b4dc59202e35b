"""Train the two models of ``caffe2-bridge demo``: an LSTM that continues words, and a CNN that reads digits.

Both learn on onnxruntime, without Caffe2: the LSTM from Python's own help, the CNN from digits that are drawn here.
python models/train_examples.py [FOLDER] [--steps 4000], with FOLDER the package data of the command.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
from train_char_rnn import add_adam, manual

import caffe2_bridge as c2
from caffe2_backend import Predictor, SessionOptions, Workspace
from caffe2_bridge.builder import LSTMCell, Net, fc, given

FOLDER: Final = Path(__file__).parents[1] / "backend" / "caffe2_cli" / "demo_files"
LETTERS: Final = " abcdefghijklmnopqrstuvwxyz"
STEPS, BATCH, HIDDEN = 32, 32, 64
SIDE: Final = 16  # of an image, in pixels
_GLYPHS: Final = """
01110 00100 01110 11111 00010 11111 00110 11111 01110 01110
10001 01100 10001 00010 00110 10000 01000 00001 10001 10001
10011 00100 00001 00100 01010 11110 10000 00010 10001 10001
10101 00100 00010 00010 10010 00001 11110 00100 01110 01111
11001 00100 00100 00001 11111 00001 10001 01000 10001 00001
10001 00100 01000 10001 00010 10001 10001 01000 10001 00010
01110 01110 11111 01110 00010 01110 01110 01000 01110 01100
"""
Array = np.ndarray[Any, Any]


def lstm(*, forward_only: bool = True) -> Net:
    """``letters`` float32 [T, N, 27], one-hot, with ``seq_lengths`` int32 [N], to ``next_letter``, probabilities."""
    net = Net("lstm")
    net.add_external_input("letters", "seq_lengths")
    cell = LSTMCell(
        name="LSTM", input_size=len(LETTERS), hidden_size=HIDDEN, forget_bias=1.0, forward_only=forward_only
    )
    output, _ = cell.apply_over_sequence(net, "letters", "seq_lengths")
    net.Softmax(fc(net, output, "scores", HIDDEN, len(LETTERS), axis=2), "next_letter", axis=2)
    net.add_external_output("next_letter")
    return net


def cnn() -> Net:
    """``image`` float32 [N, 1, 16, 16], 0 to 1, to ``digit`` [N, 10], probabilities."""
    net = Net("cnn")
    net.add_external_input("image")
    blob = "image"
    for index, (inner, outer, kernel) in enumerate(((1, 8, 5), (8, 16, 3)), 1):
        weights = [net.param(f"conv{index}_w", (outer, inner, kernel, kernel)), net.param(f"conv{index}_b", (outer,))]
        net.Conv([blob, *weights], f"conv{index}", kernel=kernel)
        net.Relu(f"conv{index}", f"relu{index}")
        blob = net.MaxPool(f"relu{index}", f"pool{index}", kernel=2, stride=2)
    net.Softmax(fc(net, blob, "scores", 16 * 2 * 2, 10), "digit")
    net.add_external_output("digit")
    return net


def one_hot(codes: Array) -> Array:
    """Return codes of letters [T, N] as float32 [T, N, 27]."""
    return np.eye(len(LETTERS), dtype=np.float32)[codes]


def texts() -> Iterator[Mapping[str, Array]]:
    """Yield batches of the topics of Python's help, in small letters, and the letters that follow."""
    text = re.sub("[^a-z]+", " ", manual().lower())
    codes = np.array([LETTERS.index(letter) for letter in text], np.int32)
    random = np.random.default_rng(0)
    while True:
        starts = random.integers(0, len(codes) - STEPS, BATCH)
        rows = codes[starts[None] + np.arange(STEPS + 1)[:, None]]
        lengths = np.full(BATCH, STEPS, np.int32)
        yield {"letters": one_hot(rows[:-1]), "seq_lengths": lengths, "label": rows[1:].reshape(-1)}


def draw(digits: Array, random: np.random.Generator) -> Array:
    """Draw digits [N] as images [N, 1, 16, 16]: of any place, brightness and thickness, with noise."""
    rows = np.array([[list(map(int, glyph)) for glyph in line.split()] for line in _GLYPHS.split("\n")[1:-1]])
    glyphs = rows.transpose(1, 0, 2).repeat(2, axis=1).repeat(2, axis=2)  # [10, 14, 10]
    images = np.zeros((len(digits), 1, SIDE, SIDE), np.float32)
    for image, digit in zip(images, digits, strict=True):
        top, left = random.integers(0, SIDE - 14 + 1), random.integers(0, SIDE - 10 + 1)
        image[0, top : top + 14, left : left + 10] = glyphs[digit] * random.uniform(0.5, 1)
        if random.random() < 0.3:
            image[0, :, 1:] = np.maximum(image[0, :, 1:], image[0, :, :-1])
    return np.clip(images + random.normal(0, 0.15, images.shape), 0, 1).astype(np.float32)


def pictures() -> Iterator[Mapping[str, Array]]:
    """Yield batches of drawn digits."""
    random = np.random.default_rng(0)
    while True:
        digits = random.integers(0, 10, 64).astype(np.int32)
        yield {"image": draw(digits, random), "label": digits}


def train(net: Net, inference: Net, batches: Iterator[Mapping[str, Array]], steps: int) -> c2.Model:
    """Train a net whose ``scores`` have a row for each ``label``; return the other one with what was learnt."""
    names = [op.output[0] for op in inference.init_net.op]
    width = next(arg.ints[0] for op in net.init_net.op if op.output[0] == "scores_b" for arg in op.arg)
    net.Reshape("scores", ["rows", "_dims"], shape=[-1, width])
    net.SoftmaxWithLoss(["rows", "label"], ["probabilities", "loss"])
    init = add_adam(net, "loss")
    space = Workspace(options=SessionOptions(threads=1))
    space.run_net_once(init)
    space.create_net(net.proto)
    mean = float("nan")
    for step, batch in enumerate(islice(batches, steps)):
        for name, value in batch.items():
            space.feed(name, value)
        space.run_net(net.name)
        loss = float(space.fetch("loss").item())
        mean = loss if step == 0 else 0.98 * mean + 0.02 * loss
    print(f"{net.name}: {steps} steps, loss {mean:.3f}", flush=True)
    weights = Net("weights")
    for name in names:
        value = space.fetch(name)
        weights.param(name, value.shape, given(value))
    return c2.Model.of(inference.proto, weights.model().init_net)


def main() -> None:
    """Train both, and write them with an input each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER, help="where to write (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=4000, help="of the LSTM, and twice those of the CNN")
    options = parser.parse_args()
    written = {
        "lstm": train(lstm(forward_only=False), lstm(), texts(), options.steps),
        "cnn": train(cnn(), cnn(), pictures(), options.steps // 2),
    }
    for name, model in written.items():
        c2.save(model, options.folder / name)
    random = np.random.default_rng(1)
    image = draw(np.arange(10), random)
    np.savez_compressed(options.folder / "digits.npz", image=image)
    read = Predictor(written["cnn"]).run({"image": image})["digit"].argmax(axis=1)
    many = random.integers(0, 10, 1000)
    right = (Predictor(written["cnn"]).run({"image": draw(many, random)})["digit"].argmax(axis=1) == many).mean()
    print(f"the CNN reads {''.join(map(str, read))}; {right:.1%} of 1,000 digits are right")
    codes = np.array([[LETTERS.index(letter) for letter in word] for word in ("the stat", "function")]).T
    np.savez_compressed(
        options.folder / "letters.npz", letters=one_hot(codes), seq_lengths=np.full(2, len(codes), np.int32)
    )


if __name__ == "__main__":
    main()

"""Train the character model of char_rnn.py from random weights, and let it write.

The net, its gradients and its optimizer (Adam) are built here and run on onnxruntime, without Caffe2. Writes a model
folder like models/char_rnn: python models/train_char_rnn.py FOLDER [--text FILE] [--seconds 60] [--seed 0]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from char_rnn import build

import caffe2_bridge as c2
from caffe2_backend import Predictor, SessionOptions, Workspace
from caffe2_bridge.builder import ZEROS, Net, make_operator
from caffe2_bridge.gradients import add_gradient_operators
from caffe2_bridge.proto.caffe2_pb2 import NetDef, TensorProto

HIDDEN: Final = 192
STEPS, BATCH = 32, 32
RATE: Final = 0.003
STATES: Final = {"hidden_init": "LSTM/hidden_state_last", "cell_init": "LSTM/cell_state_last"}
Array = np.ndarray[Any, Any]


def training_net(vocabulary: int, hidden: int = HIDDEN, *, seed: int = 0) -> tuple[Net, NetDef]:
    """Return a net that does one training step, and the net that fills what it starts from.

    ``input_blob`` [T, N, vocabulary] are one-hot characters, ``target`` int32 [T * N] the characters that follow them.
    The state after the last step is the initial state of the next run.
    """
    net = build(vocabulary, hidden, seed=seed, forward_only=False)
    net.Reshape("logits", ["scores", "_scores_dims"], shape=[-1, vocabulary])
    net.SoftmaxWithLoss(["scores", "target"], ["probabilities", "loss"])
    init = add_adam(net, "loss")
    for initial, last in STATES.items():
        net.Copy(last, initial)
    return net, init


def add_adam(net: Net, loss: str) -> NetDef:
    """Append gradients, and an update of each parameter; the loss and the parameters become outputs.

    Returns the net that fills the parameters and the state of the optimizer.
    """
    parameters = [op.output[0] for op in net.init_net.op]
    made = add_gradient_operators(net.proto, [loss])
    net.extend(made.net.op[len(net.proto.op) :])
    net.Iter("iteration", "iteration")
    net.LearningRate("iteration", "rate", policy="fixed", base_lr=-RATE)
    for fill in list(net.init_net.op):
        (name,) = fill.output
        shape = next(list(arg.ints) for arg in fill.arg if arg.name == "shape")
        moments = [net.param(f"{name}_moment_{which}", shape, ZEROS) for which in (1, 2)]
        net.Adam([name, *moments, made.gradients[name], "rate", "iteration"], [name, *moments])
    net.add_external_output(loss, *parameters)
    init = NetDef()
    init.CopyFrom(net.init_net)
    zero = {"shape": [1], "value": 0, "dtype": TensorProto.INT64}
    init.op.append(make_operator("ConstantFill", [], ["iteration"], zero))
    return init


@dataclass
class Training:
    """A model that learns a text, ``batch`` parts of it at the same time."""

    text: str
    hidden: int = HIDDEN
    seed: int = 0
    threads: int = 1
    batch: int = BATCH

    def __post_init__(self) -> None:
        """Build the nets and place the start of each part."""
        self.characters = "".join(sorted(set(self.text)))
        self.net, init = training_net(len(self.characters), self.hidden, seed=self.seed)
        self.parameters = [name for name in self.net.proto.external_output if name in self._filled()]
        self.space = Workspace(options=SessionOptions(threads=self.threads))
        self.space.run_net_once(init)
        self.space.feed("seq_lengths", np.full(self.batch, STEPS, np.int32))
        for name in STATES:
            self.space.feed(name, np.zeros((1, self.batch, self.hidden), np.float32))
        self.space.create_net(self.net.proto)
        codes = np.array([self.characters.index(character) for character in self.text], np.int32)
        self.parts = codes[: len(codes) // self.batch * self.batch].reshape(self.batch, -1).T
        self.predictor = Predictor(build(len(self.characters), self.hidden).model())

    def _filled(self) -> set[str]:
        return {name for op in self.net.init_net.op for name in op.output}

    def losses(self) -> Iterator[float]:
        """Train, one step for each loss that is taken: the mean cross entropy of a character, in nats."""
        one_hot = np.eye(len(self.characters), dtype=np.float32)
        while True:
            for start in range(0, len(self.parts) - STEPS, STEPS):
                rows = self.parts[start : start + STEPS + 1]
                self.space.feed("input_blob", one_hot[rows[:-1]])
                self.space.feed("target", rows[1:].reshape(-1))
                self.space.run_net(self.net.name)
                yield float(self.space.fetch("loss").item())

    def weights(self) -> dict[str, Array]:
        """Return the parameters as they are now."""
        return {name: self.space.fetch(name) for name in self.parameters}

    def write(self, start: str, length: int, *, temperature: float = 0.6) -> str:
        """Continue a text by characters that the model finds likely, drawn at random."""
        random = np.random.default_rng(self.seed)
        weights = self.weights()
        state = {name: np.zeros((1, 1, self.hidden), np.float32) for name in STATES}
        text, pending = start, start
        while len(text) < length:
            codes = [self.characters.index(character) for character in pending]
            one_hot = np.eye(len(self.characters), dtype=np.float32)[codes][:, None]
            lengths = np.full(1, len(codes), np.int32)
            results = self.predictor.run({"input_blob": one_hot, "seq_lengths": lengths, **state, **weights})
            state = {name: results[last] for name, last in STATES.items()}
            likely = results["softmax"][-1, 0].astype(np.float64) ** (1 / temperature)
            pending = self.characters[random.choice(len(likely), p=likely / likely.sum())]
            text += pending
        return text

    def model(self) -> c2.Model:
        """Return the model with its parameters as they are now."""
        init = NetDef(name="char_rnn_init")
        for name, value in self.weights().items():
            fill = {"shape": list(value.shape), "values": value.reshape(-1).tolist()}
            init.op.append(make_operator("GivenTensorFill", [], [name], fill))
        return c2.Model.of(build(len(self.characters), self.hidden).proto, init)


def manual() -> str:
    """Return the text that Python's help() prints on topics such as operators and statements."""
    from pydoc_data.topics import topics

    text = "\n\n".join(topics[name] for name in sorted(topics))
    return "".join(character for character in text if character.isascii())


def train(training: Training, seconds: float, report: Callable[[int, float, float], None]) -> float:
    """Train for some seconds, reporting steps, elapsed seconds and the mean of recent losses; return the last mean."""
    begin, mean = time.monotonic(), float("nan")
    for step, loss in enumerate(training.losses(), 1):
        mean = loss if step == 1 else mean + (loss - mean) * max(0.02, 1 / step)
        elapsed = time.monotonic() - begin
        report(step, elapsed, mean)
        if elapsed >= seconds:
            break
    return mean


def main() -> None:
    """Train, print the loss and what the model writes, and save it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder to write the model to")
    parser.add_argument("--text", type=Path, help="the text to learn (default: the topics of Python's help)")
    parser.add_argument("--seconds", type=float, default=60, help="how long to train (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="threads of onnxruntime (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the initial weights and of what is written")
    options = parser.parse_args()
    text = options.text.read_text(encoding="utf-8") if options.text else manual()
    training = Training(text, seed=options.seed, threads=options.threads)

    def report(step: int, elapsed: float, loss: float) -> None:
        if step % 100 == 0:
            print(f"{elapsed:5.0f} s  step {step:5}  loss {loss:.3f}  {training.write(text[:4], 60)!r}", flush=True)

    loss = train(training, options.seconds, report)
    c2.save(training.model(), options.folder)
    facts = {"vocab": training.characters, "hidden": training.hidden, "loss": loss}
    (options.folder / "char_rnn.json").write_text(json.dumps(facts, indent=1))
    print(training.write(text[:4], 400))
    print(f"wrote {options.folder}")


if __name__ == "__main__":
    main()

"""Export models/char_rnn, run it over the cases recorded from real Caffe2, let it write, and time its two forms.

With --train, train such a model from random weights instead.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.table import Table

import caffe2_bridge as c2
from caffe2_backend import Predictor, SessionOptions
from caffe2_frontend import ExportOptions, Recurrent, convert, save_onnx

MODELS = Path(__file__).resolve().parent.parent / "models"
FOLDER = MODELS / "char_rnn"
FORMS: tuple[Recurrent, ...] = ("fused", "scan")
RTOL, ATOL = 1e-3, 1e-4
REPEATS = 20

console = Console()


def export(folder: Path) -> dict[str, Predictor]:
    """Export one model file a form, each for every T and N."""
    predictors = {}
    for form in FORMS:
        path = folder / f"char_rnn_{form}.onnx"
        save_onnx(convert(c2.load(FOLDER), options=ExportOptions(recurrent=form)), path)
        console.print(f"exported {form}: {path.stat().st_size:,} bytes")
        predictors[form] = Predictor(path, options=SessionOptions(threads=2))
    return predictors


def recorded() -> list[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]:
    """Return the inputs and outputs of each recorded case."""
    with np.load(FOLDER / "cases.npz") as file:
        numbers = sorted({name.split("/")[0] for name in file.files}, key=int)
        return [(_side(file, number, "in"), _side(file, number, "out")) for number in numbers]


def _side(file: np.lib.npyio.NpzFile, number: str, side: str) -> dict[str, np.ndarray]:
    prefix = f"{number}/{side}/"
    return {name.removeprefix(prefix): file[name] for name in file.files if name.startswith(prefix)}


def compare(predictors: dict[str, Predictor]) -> bool:
    """Print the largest error of each output of each case; whether all are within the tolerance."""
    table = Table(
        "form", "T", "N", "output", "largest error", "", title="onnxruntime against real Caffe2", title_justify="left"
    )
    good = True
    for form, predictor in predictors.items():
        for inputs, outputs in recorded():
            steps, batch = inputs["input_blob"].shape[:2]
            results = predictor.run(inputs)
            for name, expected in outputs.items():
                actual = results.get(name)
                if actual is None:
                    continue
                same = actual.shape == expected.shape and np.allclose(actual, expected, rtol=RTOL, atol=ATOL)
                error = f"{np.abs(actual - expected).max():.1e}" if actual.shape == expected.shape else "shape"
                table.add_row(form, str(steps), str(batch), name, error, "ok" if same else "OFF")
                good = good and same
    console.print(table)
    return good


def write(predictor: Predictor, seed: str, length: int, letters: str) -> str:
    """Return greedy text: after the seed one letter a call, the states carried from call to call."""
    text = seed
    hidden = np.zeros((1, 1, _hidden_size()), np.float32)
    cell = hidden
    pending = seed
    while len(text) < length:
        one_hot = np.zeros((len(pending), 1, len(letters)), np.float32)
        one_hot[np.arange(len(pending)), 0, [letters.index(letter) for letter in pending]] = 1
        results = predictor.run(
            {
                "input_blob": one_hot,
                "seq_lengths": np.array([len(pending)], np.int32),
                "hidden_init": hidden,
                "cell_init": cell,
            }
        )
        hidden, cell = results["LSTM/hidden_state_last"], results["LSTM/cell_state_last"]
        pending = letters[int(results["softmax"][-1, 0].argmax())]
        text += pending
    return text


def _hidden_size() -> int:
    return int(json.loads((FOLDER / "char_rnn.json").read_text())["hidden"])


def speed(predictors: dict[str, Predictor], steps: int = 100, batch: int = 16) -> None:
    """Print the median time of a call of each form, called in turn."""
    random = np.random.default_rng(0)
    letters = len(json.loads((FOLDER / "char_rnn.json").read_text())["vocab"])
    inputs = {
        "input_blob": np.eye(letters, dtype=np.float32)[random.integers(letters, size=(steps, batch))],
        "seq_lengths": np.full(batch, steps, np.int32),
        "hidden_init": np.zeros((1, batch, _hidden_size()), np.float32),
        "cell_init": np.zeros((1, batch, _hidden_size()), np.float32),
    }
    times: dict[str, list[float]] = {form: [] for form in predictors}
    for _ in range(REPEATS):
        for form, predictor in predictors.items():
            start = time.perf_counter()
            predictor.run(inputs)
            times[form].append(time.perf_counter() - start)
    medians = {form: 1000 * statistics.median(values) for form, values in times.items()}
    parts = ", ".join(f"{form} {median:.1f} ms" for form, median in medians.items())
    ratio = medians["scan"] / medians["fused"]
    console.print(f"T={steps}, N={batch}: {parts} a call (medians of {REPEATS}; scan / fused = {ratio:.2f})")


def train(seconds: float) -> int:
    """Train a character model, with the loss as a live line, and print what it writes."""
    sys.path.insert(0, str(MODELS))
    import train_char_rnn as recipe

    training = recipe.Training(recipe.manual(), threads=2)
    console.print(f"training on {len(training.text):,} characters of Python's help, for {seconds:.0f} seconds")
    with Live(console=console, auto_refresh=False) as live:

        def report(step: int, elapsed: float, loss: float) -> None:
            live.update(f"{elapsed:4.0f} s   step {step:,}   loss {loss:.3f}", refresh=step % 10 == 0)

        recipe.train(training, seconds, report)
    console.print(training.write(training.text[:4], 600), style="dim", markup=False, highlight=False)
    return 0


def main() -> int:
    """Do everything in order; return 0 if all agrees."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", type=float, nargs="?", const=90.0, metavar="SECONDS", help="train (default: 90)")
    seconds = parser.parse_args().train
    return show() if seconds is None else train(seconds)


def show() -> int:
    """Export, compare, write and time; return 0 if all agrees."""
    facts = json.loads((FOLDER / "char_rnn.json").read_text())
    with tempfile.TemporaryDirectory() as folder:
        predictors = export(Path(folder))
        good = compare(predictors)
        expected = facts["greedy"]["text"]
        for form, predictor in predictors.items():
            text = write(predictor, facts["greedy"]["seed"], len(expected), facts["vocab"])
            same = text == expected
            good = good and same
            console.print(f"text written by the {form} form is {'' if same else 'NOT '}the text that Caffe2 wrote")
        console.print(repr(expected), style="dim")
        speed(predictors)
    console.print("all agrees with real Caffe2" if good else "SOMETHING IS OFF")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

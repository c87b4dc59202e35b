"""Use the installed packages: convert a model both ways and run it. It runs by itself, outside of the repository.

Arguments: a folder with a copy of models/char_rnn, in which files are written, and the folder of the installation.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner

import caffe2_backend
import caffe2_bridge
import caffe2_frontend
from caffe2_cli.commands import main as cli


def main(folder: Path, installation: Path) -> None:
    """Raise AssertionError if something does not work."""
    for package in (caffe2_bridge, caffe2_frontend, caffe2_backend):
        place = Path(str(package.__file__)).resolve()
        assert place.is_relative_to(installation.resolve()), f"{place} is not in {installation}"
    model = folder / "char_rnn"
    exported = folder / "char_rnn.onnx"
    caffe2_frontend.save_onnx(caffe2_frontend.to_onnx(caffe2_bridge.load(model)), exported)
    state = np.zeros((1, 2, 192), np.float32)
    lengths = np.array([5, 3], np.int32)
    inputs: dict[str, Any] = {
        "input_blob": np.ones((5, 2, 94), np.float32),
        "seq_lengths": lengths,
        "hidden_init": state,
    }
    inputs |= {"hidden_init": state, "cell_init": state}
    expected = caffe2_backend.Predictor(model).run(inputs)["softmax"]
    actual = caffe2_backend.Predictor(exported).run(inputs)["softmax"]
    assert np.array_equal(np.asarray(expected), np.asarray(actual))
    assert np.allclose(np.asarray(actual).sum(axis=-1), 1, atol=1e-5)
    np.savez(folder / "in.npz", **inputs)
    for words in (
        ["check", model],
        ["export", model, "-o", folder / "again.onnx"],
        ["import", exported, "-o", folder / "imported"],
        ["run", folder / "imported", "--inputs", folder / "in.npz", "-o", folder / "out.npz"],
        ["show", model],
    ):
        command(*map(str, words))
    command("demo", str(folder / "demo"))
    command("check", str(folder / "demo" / "cnn"))
    os.environ["CAFFE2_PYTHON"] = "/nowhere"  # real Caffe2 takes seconds to start
    assert json.loads(command("doctor", "--json"))["problems"] == []
    with np.load(folder / "out.npz") as found:
        assert np.allclose(found["softmax"], np.asarray(expected), atol=1e-5)


def command(*words: str) -> str:
    """Run ``caffe2-bridge`` in this process and return what it prints. Raises AssertionError if it fails."""
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, f"{words}: {result.output}"
    return result.stdout


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
    sys.stdout.write("The installed packages work.\n")

"""``run --random-inputs``: inputs that are synthesized, as those of ``validate``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from support.cells import fills
from support.commands import call
from support.nets import net, op

from caffe2_bridge import Model, save

LAYER = net(op("FC", "x w b", "h"), op("Relu", "h", "y"), inputs="x w b")
WEIGHTS = {"w": np.ones((2, 3), np.float32), "b": np.zeros(2, np.float32)}


def test_a_net_runs_on_inputs_that_are_synthesized(tmp_path: Path) -> None:
    save(Model.of(LAYER, fills(WEIGHTS)), tmp_path / "model")
    results = []
    for seed in (1, 1, 2):
        result = call("run", tmp_path / "model", "--random-inputs", "--seed", seed, "-o", tmp_path / "out.npz")
        assert result.exit_code == 0, result.output
        assert result.stderr == f"synthesized input x: float32[1, 3] (seed {seed})\n"
        results.append(np.load(tmp_path / "out.npz")["y"])
    np.testing.assert_array_equal(results[0], results[1])
    assert not np.array_equal(results[0], results[2])


def test_inputs_that_are_synthesized_are_described(tmp_path: Path) -> None:
    text = """<ir_version: 9, opset_import: ["" : 20]> g (float[N,3] x) => (float[N,3] y) { y = Relu(x) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    words = ("run", tmp_path / "m.onnx", "-o", tmp_path / "out.npz", "--input", "x=float32[7,3]")
    result = call(*words, "--random-inputs")
    assert (result.exit_code, result.stdout) == (0, "y: float32[7, 3]\n")
    alone = call(*words)
    assert (alone.exit_code, "add --random-inputs" in alone.output) == (2, True)
    np.savez(tmp_path / "in.npz", x=np.ones((2, 3), np.float32))
    both = call(*words, "--random-inputs", "--inputs", tmp_path / "in.npz")
    assert (both.exit_code, "do not go together" in both.output) == (2, True)


def test_weights_are_synthesized_on_request_alone(tmp_path: Path) -> None:
    ops = [op("Conv", "x w b", "c", kernel=3), op("Conv", "c v", "d", kernel=3, group=16), op("FC", "d f g", "y")]
    save(Model.of(net(*ops, inputs="x w b v f g")), tmp_path / "model")
    words = ("run", tmp_path / "model", "--random-inputs", "-o", tmp_path / "out.npz")
    refused = call(*words)
    assert (refused.exit_code, "weights are missing" in refused.output) == (2, True)
    made = call(*words, "--random-weights")
    assert made.exit_code == 0, made.output
    assert "synthesized weights: 5" in made.stderr

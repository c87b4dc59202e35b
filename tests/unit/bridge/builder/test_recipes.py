"""The recipes of models/: written, loaded, exported, run."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest
from conformance.executors import OnnxRuntime
from conformance.oracle import OracleRun, run_oracle
from support.paths import ROOT
from support.random_values import RandomValues

import caffe2_bridge as c2
from caffe2_bridge.builder import AttentionType, Net
from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import check, to_onnx
from caffe2_validation.api import validate
from caffe2_validation.sizes import SIZES

MODELS = ROOT / "models"
T, N, S = 6, 3, 5
LENGTHS = np.array([6, 2, 4], np.int32)


VALUES = RandomValues("recipes")

INPUTS = {
    "char_rnn": {
        "input_blob": np.eye(94, dtype=np.float32)[VALUES.within(0, 94, T, N, name="int32")],
        "seq_lengths": LENGTHS,
        "hidden_init": VALUES.normal(1, N, 192, scale=0.5),
        "cell_init": VALUES.normal(1, N, 192, scale=0.5),
    },
    "sequence_tagger": {"words": VALUES.within(0, 200, T, N, name="int32"), "seq_lengths": LENGTHS},
    "seq2seq": {
        "source": VALUES.within(0, 60, S, N, name="int32"),
        "source_lengths": np.array([3, 5, 2], np.int32),
        "target": VALUES.within(0, 50, T, N, name="int32"),
        "target_lengths": LENGTHS,
    },
    "gru_language_model": {"words": VALUES.within(0, 120, T, N, name="int32"), "seq_lengths": LENGTHS},
    "while_rnn": {
        "first": VALUES.within(0, 30, 1, N),
        "hidden": VALUES.normal(1, N, 16, scale=0.5),
        "cell": VALUES.normal(1, N, 16, scale=0.5),
        "steps": np.array([7], np.int32),
    },
}


@cache
def recipe(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"recipe_{name}", MODELS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def net_of(name: str, **options: Any) -> Net:
    net = recipe(name).build(**options)
    assert isinstance(net, Net)
    return net


def exported(model: c2.Model, inputs: dict[str, Any]) -> onnx.ModelProto:
    """Export the model, knowing types and ranks only."""
    given = {blob: (value.dtype, [None] * value.ndim) for blob, value in inputs.items()}
    return to_onnx(model.predict_net, model.init_net, inputs=given)


def test_every_recipe_is_here() -> None:
    """The one that trains has tests of its own: tests/end_to_end/models/test_train_char_rnn.py."""
    assert {path.stem for path in MODELS.glob("*.py")} == {*INPUTS, "train_char_rnn", "train_examples"}


@pytest.mark.parametrize("name", INPUTS)
def test_a_recipe_writes_a_model_that_runs(name: str, tmp_path: Path) -> None:
    command = [sys.executable, MODELS / f"{name}.py", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own script
    assert done.returncode == 0, done.stderr
    model = c2.load(tmp_path)
    assert set(model.inputs) == set(INPUTS[name])
    assert model.predict_net == net_of(name).proto
    results = OnnxRuntime(exported(model, INPUTS[name])).run(INPUTS[name])
    assert len(results) == len(model.outputs)
    for result in results:
        assert np.isfinite(result).all()


def test_types_and_ranks_that_operators_tell() -> None:
    report = check(net_of("while_rnn").model())
    assert report.covered
    assert {finding.code for finding in report.findings} == {"assumed-rank"}


def test_a_loop_is_validated_at_all_sizes() -> None:
    report = validate(net_of("while_rnn").model(), runtimes=["onnxruntime-cpu", "onnx-reference"])
    assert report.agrees
    assert len(report.cases) == len(SIZES)


@pytest.mark.parametrize("name", INPUTS)
def test_the_seed_is_all_that_weights_depend_on(name: str) -> None:
    first, again, other = (net_of(name, seed=seed).model().params for seed in (3, 3, 4))
    assert {blob: first[blob].tobytes() for blob in first} == {blob: again[blob].tobytes() for blob in again}
    assert any(not np.array_equal(first[blob], other[blob]) for blob in first)


@pytest.mark.parametrize(("name", "kind"), [("char_rnn", "LSTM"), ("sequence_tagger", "LSTM"), ("while_rnn", "Loop")])
def test_what_becomes_of_it_in_onnx(name: str, kind: str) -> None:
    assert kind in {node.op_type for node in exported(net_of(name).model(), INPUTS[name]).graph.node}


@pytest.mark.oracle
@pytest.mark.parametrize("name", INPUTS)
def test_real_caffe2_computes_the_same(name: str) -> None:
    compare(net_of(name), INPUTS[name])


@pytest.mark.oracle
@pytest.mark.parametrize("attention", AttentionType)
def test_every_attention(attention: AttentionType) -> None:
    compare(net_of("seq2seq", attention=attention), INPUTS["seq2seq"])


def compare(net: Net, inputs: dict[str, Any]) -> None:
    model = net.model()
    (real,) = run_oracle([OracleRun(model.predict_net, inputs, model.init_net, model.outputs)])
    assert not real.error
    results = OnnxRuntime(exported(model, inputs)).run(inputs)
    for blob, result in zip(model.outputs, results, strict=True):
        np.testing.assert_allclose(result, real.outputs[blob], rtol=1e-3, atol=1e-4, err_msg=blob)


INCIDENTAL = {"order", "use_cudnn", "cudnn_exhaustive_search"}  # what Caffe2's helpers write on every operator
BODIES = ("step_net", "backward_step_net")


def lines(net: NetDef) -> list[object]:
    """Return the operators, those of step nets behind their operator."""
    found: list[object] = []
    for index, op in enumerate(net.op):
        args = {arg.name: arg.SerializeToString() for arg in op.arg if arg.name not in INCIDENTAL.union(BODIES)}
        found.append((op.type, list(op.input), list(op.output), args))
        for name in BODIES:
            body = OpView(op, index).args.net(name, default=None)
            found.extend([] if body is None else lines(body))
    return found


def test_the_character_model_is_the_trained_one() -> None:
    """Compare operators, operands and arguments with the net that was trained in real Caffe2."""
    trained = NetDef.FromString((MODELS / "char_rnn" / "predict_net.pb").read_bytes())
    ours = net_of("char_rnn", forward_only=False).proto
    assert lines(ours) == lines(trained)
    assert set(ours.external_input) == set(trained.external_input)
    assert list(ours.external_output) == list(trained.external_output)


def test_the_recipe_with_the_trained_weights() -> None:
    trained = c2.load(MODELS / "char_rnn")
    with np.load(MODELS / "char_rnn" / "cases.npz") as archive:
        cases = dict(archive)
    net = net_of("char_rnn").proto
    inputs = {blob: cases[f"0/in/{blob}"] for blob in INPUTS["char_rnn"]}
    results = OnnxRuntime(exported(c2.Model.of(net, trained.init_net), inputs)).run(inputs)
    for blob, result in zip(net.external_output, results, strict=True):
        np.testing.assert_allclose(result, cases[f"0/out/{blob}"], rtol=1e-3, atol=1e-4, err_msg=blob)

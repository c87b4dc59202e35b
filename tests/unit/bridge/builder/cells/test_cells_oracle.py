"""Every cell beside the one of Caffe2's own helpers, both run in real Caffe2 at the same weights."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance.executors import OnnxRuntime
from conformance.oracle import OracleRun, find_oracle, run_oracle
from support.builder.cell_cases import CASES, Built, ours, values
from support.paths import SUPPORT

from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx

pytestmark = pytest.mark.oracle


@dataclass(frozen=True)
class Pair:
    """One cell's net of ours, and what real Caffe2 computes with it and with its own: outputs, results, gradients."""

    built: Built
    inputs: Mapping[str, Any]
    computed: Mapping[str, Any]
    expected: Mapping[str, Any]


@cache
def theirs() -> tuple[dict[str, Any], dict[str, NetDef]]:
    """Return the nets of Caffe2's own helpers, and what they are called in there."""
    cases = [
        {
            "name": name,
            "cell": case.as_caffe2_can or case.cell,
            "states": len(case.states),
            "lengths": case.lengths,
            "grads": case.grads,
            "trains": case.trains,
        }
        for name, case in CASES.items()
    ]
    with tempfile.TemporaryDirectory() as folder:
        request, response = Path(folder, "cases.json"), Path(folder, "nets.npz")
        request.write_text(json.dumps(cases))
        python = find_oracle()
        assert python is not None
        command = [python, SUPPORT / "builder" / "caffe2_cells.py", request, response]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - real Caffe2
        assert done.returncode == 0, done.stderr
        with np.load(response) as archive:
            arrays = dict(archive)
    meta = json.loads(arrays.pop("meta").tobytes())
    return meta, {name: NetDef.FromString(array.tobytes()) for name, array in arrays.items()}


@cache
def pairs(kind: str) -> dict[str, Pair]:
    """Return all cells, in one process of real Caffe2."""
    meta, nets = theirs()
    cases = {name: case for name, case in CASES.items() if kind == "forward" or case.trains}
    built = {name: ours(case, forward_only=kind == "forward") for name, case in cases.items()}
    inputs = {name: values(name, case, built[name].net) for name, case in cases.items()}
    names = {name: named(built[name], meta[f"{name}/{kind}"], inputs[name]) for name in cases}
    runs = [
        run
        for name in cases
        for run in (
            OracleRun(built[name].net.proto, inputs[name], outputs=list(names[name])),
            OracleRun(nets[f"{name}/{kind}"], inputs[name], outputs=list(names[name].values())),
        )
    ]
    results = iter(run_oracle(runs))
    found = {}
    for name in cases:
        mine, other = next(results), next(results)
        assert not mine.error, (name, mine.error)
        assert not other.error, (name, other.error)
        expected = {blob: other.outputs[theirs] for blob, theirs in names[name].items()}
        found[name] = Pair(built[name], inputs[name], mine.outputs, expected)
    return found


def named(built: Built, meta: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, str]:
    """Return what is compared: our names to theirs."""
    names = dict(zip((built.output, *built.results), (meta["output"], *meta["results"]), strict=True))
    common = set(built.gradients) & set(meta["gradients"]) & set(inputs)
    if built.gradients:
        assert {"x", *meta["parameters"]} <= common
    return names | {built.gradients[blob]: meta["gradients"][blob] for blob in sorted(common)}


@pytest.mark.parametrize("name", CASES)
def test_outputs_equal_those_of_caffe2s_own(name: str) -> None:
    equal(pairs("forward")[name])


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.trains])
def test_gradients_equal_those_of_caffe2s_own(name: str) -> None:
    pair = pairs("train")[name]
    assert len(pair.expected) >= 6
    if CASES[name].caffe2_loses_gradient:
        with pytest.raises(AssertionError, match="Not equal to tolerance"):
            equal(pair)
    else:
        equal(pair)


def equal(pair: Pair) -> None:
    for blob, value in pair.expected.items():
        np.testing.assert_allclose(pair.computed[blob], value, rtol=1e-5, atol=1e-6, err_msg=blob)


@pytest.mark.parametrize("recurrent", ["auto", "loop"])
@pytest.mark.parametrize("name", CASES)
def test_exported(name: str, recurrent: str) -> None:
    pair = pairs("forward")[name]
    net = pair.built.net.proto
    model = to_onnx(
        net,
        inputs={blob: (pair.inputs[blob].dtype, [None] * pair.inputs[blob].ndim) for blob in net.external_input},
        outputs=list(pair.computed),
        recurrent=recurrent,
    )
    for value, blob in zip(OnnxRuntime(model).run(pair.inputs), pair.computed, strict=True):
        np.testing.assert_allclose(value, pair.computed[blob], rtol=1e-3, atol=1e-4, err_msg=blob)


@pytest.mark.parametrize(
    ("maker", "choices"),
    [("ours", {}), ("caffe2", {}), ("caffe2", {"recurrent": "loop"}), ("ours", {"recompute": "steps"})],
)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.trains])
def test_exported_gradients(name: str, maker: str, choices: dict[str, Any]) -> None:
    """Export nets of gradients that our helpers, and Caffe2's own, have made."""
    pair = pairs("train")[name]
    net = pair.built.net.proto if maker == "ours" else theirs()[1][f"{name}/train"]
    names = named(pair.built, theirs()[0][f"{name}/train"], pair.inputs)
    values = pair.computed if maker == "ours" else {names[blob]: value for blob, value in pair.expected.items()}
    given = {blob: value for blob, value in pair.inputs.items() if blob in net.external_input}
    model = to_onnx(
        net,
        inputs={blob: (value.dtype, [None] * value.ndim) for blob, value in given.items()},
        outputs=list(values),
        **choices,
    )
    for value, blob in zip(OnnxRuntime(model).run(given), values, strict=True):
        np.testing.assert_allclose(value, values[blob], rtol=1e-4, atol=1e-5, err_msg=blob)

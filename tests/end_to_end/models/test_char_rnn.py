"""The main job: the LSTM of models/char_rnn, in each form, gives what real Caffe2 gave, at all sizes."""

from __future__ import annotations

import importlib.util
import json
import sys
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from support.netdef_interpreter import sigmoid
from support.paths import ROOT

import caffe2_bridge as c2
from caffe2_backend.runtime.sessions.session import Session
from caffe2_frontend import to_onnx

FOLDER = ROOT / "models" / "char_rnn"
FORMS = ("auto", "fused", "scan", "loop")
Array = np.ndarray[Any, Any]


@cache
def model(form: str) -> Any:
    return to_onnx(c2.load(FOLDER), recurrent=form)  # type: ignore[arg-type] # a literal


@cache
def session(form: str) -> Session:
    return Session(model(form).SerializeToString(), threads=1)


@cache
def recorded() -> list[tuple[dict[str, Array], dict[str, Array]]]:
    with np.load(FOLDER / "cases.npz") as file:
        arrays = {name: file[name] for name in file.files}
    numbers = sorted({name.split("/")[0] for name in arrays})

    def side(number: str, which: str) -> dict[str, Array]:
        prefix = f"{number}/{which}/"
        return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}

    return [(side(number, "in"), side(number, "out")) for number in numbers]


def inputs(steps: int, batch: int, lengths: list[int] | None = None) -> dict[str, Array]:
    random = np.random.default_rng(steps * 7 + batch)
    letters = random.integers(94, size=(steps, batch))
    return {
        "input_blob": np.eye(94, dtype=np.float32)[letters],
        "seq_lengths": np.array([steps] * batch if lengths is None else lengths, np.int32),
        "hidden_init": random.normal(size=(1, batch, 192)).astype(np.float32),
        "cell_init": random.normal(size=(1, batch, 192)).astype(np.float32),
    }


def by_hand(given: dict[str, Array]) -> dict[str, Array]:
    """Return the model in NumPy."""
    weights = {name: np.asarray(value) for name, value in c2.load(FOLDER).params.items()}
    projected = given["input_blob"] @ weights["LSTM/i2h_w"].T + weights["LSTM/i2h_b"]
    h, c = given["hidden_init"][0], given["cell_init"][0]
    rows = []
    for t, row in enumerate(projected):
        i, f, o, g = np.split(row + h @ weights["LSTM/gates_t_w"].T + weights["LSTM/gates_t_b"], 4, axis=-1)
        new_c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(g)  # forget_bias is 1
        new_h = sigmoid(o) * np.tanh(new_c)
        on = (t < given["seq_lengths"])[:, None]
        h, c = np.where(on, new_h, h), np.where(on, new_c, c)
        rows.append(h)
    logits = np.stack(rows) @ weights["logits_w"].T + weights["logits_b"]
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    softmax = powers / powers.sum(axis=-1, keepdims=True)
    return {"softmax": softmax, "LSTM/hidden_state_last": h[None], "LSTM/cell_state_last": c[None]}


@pytest.mark.parametrize("form", FORMS)
def test_one_export_equals_what_real_caffe2_recorded(form: str) -> None:
    sizes = set()
    for given, wanted in recorded():
        sizes.add(given["input_blob"].shape[:2])
        results = session(form).run(given)
        assert list(results) == ["softmax", "LSTM/hidden_state_last", "LSTM/cell_state_last"]
        for name, value in wanted.items():
            assert results[name].shape == value.shape
            np.testing.assert_allclose(results[name], value, rtol=1e-4, atol=1e-5, err_msg=name)
    assert len(sizes) == 3


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("steps", "batch", "lengths"),
    [(1, 1, None), (1, 4, [0, 1, 1, 0]), (6, 5, [0, 6, 3, 1, 5]), (3, 2, [0, 0]), (4, 1, [9])],
)
def test_other_sizes_and_lengths(form: str, steps: int, batch: int, lengths: list[int] | None) -> None:
    given = inputs(steps, batch, lengths)
    results = session(form).run(given)
    for name, value in by_hand(given).items():
        np.testing.assert_allclose(results[name].reshape(value.shape), value, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("batch", [1, 3])
def test_no_steps(form: str, batch: int) -> None:
    given = inputs(0, batch)
    results = session(form).run(given)
    assert results["softmax"].size == 0
    np.testing.assert_array_equal(results["LSTM/hidden_state_last"], given["hidden_init"])
    np.testing.assert_array_equal(results["LSTM/cell_state_last"], given["cell_init"])


@pytest.mark.parametrize("form", ["fused", "scan"])
def test_states_carried_over_make_one_sequence_of_two(form: str) -> None:
    given = inputs(7, 2)
    whole = session(form).run(given)
    first = session(form).run(given | {"input_blob": given["input_blob"][:3]} | {"seq_lengths": np.full(2, 3, "int32")})
    second = session(form).run(
        {
            "input_blob": given["input_blob"][3:],
            "seq_lengths": np.full(2, 4, "int32"),
            "hidden_init": first["LSTM/hidden_state_last"],
            "cell_init": first["LSTM/cell_state_last"],
        }
    )
    np.testing.assert_allclose(second["LSTM/cell_state_last"], whole["LSTM/cell_state_last"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("form", "kind"), [("fused", "LSTM"), ("scan", "Scan"), ("loop", "Loop")])
def test_the_form_is_the_one_asked_for(form: str, kind: str) -> None:
    def types(graph: Any) -> set[str]:
        inner = [types(a.g) for node in graph.node for a in node.attribute if a.HasField("g")]
        return {node.op_type for node in graph.node}.union(*inner)

    assert types(model(form).graph) & {"LSTM", "Scan", "Loop"} == {kind}


def test_sizes_stay_symbolic_and_shared() -> None:
    graph = model("auto").graph
    dims = {v.name: [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in graph.input}
    assert list(dims) == ["input_blob", "seq_lengths", "hidden_init", "cell_init"]
    assert all(isinstance(dim, str) for dim in dims["input_blob"][:2])
    assert [v.name for v in graph.output] == ["softmax", "LSTM/hidden_state_last", "LSTM/cell_state_last"]
    assert all(len(v.type.tensor_type.shape.dim) >= 2 for v in graph.output)


@cache
def demo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("demo", ROOT / "scripts" / "demo.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["demo"] = module
    spec.loader.exec_module(module)
    return module


def test_the_demo_agrees_with_real_caffe2(capsys: pytest.CaptureFixture[str]) -> None:
    assert demo().main() == 0
    text = capsys.readouterr().out
    assert "all agrees with real Caffe2" in text
    assert "OFF" not in text


def test_the_demo_sees_what_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [(given, {name: value + 0.01 for name, value in wanted.items()}) for given, wanted in recorded()]
    monkeypatch.setattr(demo(), "recorded", lambda: cases)
    assert not demo().compare({"fused": session("fused")})


def test_the_text_that_it_writes() -> None:
    facts = json.loads((FOLDER / "char_rnn.json").read_text())
    length = 60
    text = demo().write(session("fused"), facts["greedy"]["seed"], length, facts["vocab"])
    assert text == facts["greedy"]["text"][:length]

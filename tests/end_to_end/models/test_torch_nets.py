"""Nets that PyTorch's Caffe2 backend wrote become graphs of about as many nodes as PyTorch's own exporter writes.

``support/torch_nets.py`` wrote them, and what PyTorch computes, with real Caffe2's python.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from support.exports import dims, node_types, run

from caffe2_bridge import load
from caffe2_frontend import to_onnx

NETS: Final = Path(__file__).parents[2] / "support" / "data" / "torch_nets"
IMAGE: Final = {"x": ("float32", ("N", 3, "H", "W"))}
TABLES: Final = {"d": ("float32", ("N", 5)), **dict.fromkeys("abc", ("int64", ("N", 3)))}


@pytest.mark.parametrize(
    ("name", "inputs", "most", "expected"),
    [
        ("unet", IMAGE, 8, ["N", 2, None, None]),
        ("ssd", IMAGE, 51, ["N", None, 4]),
        ("super_resolution", {"x": ("float32", (1, 1, 6, 6))}, 10, [1, 1, 18, 18]),
        ("both_directions", {"x": ("float32", ("T", "N", 3))}, 25, ["T", "N", 3]),
        ("classifier", {"x": ("int64", ("T", "N"))}, 22, ["N", 3]),
        ("r2plus1d", {"x": ("float32", ("N", 1, 4, 6, 6))}, 26, ["N", 3]),
        ("dlrm", TABLES, 19, ["N", 1]),
    ],
)
def test_a_net_of_pytorch(name: str, inputs: dict[str, Any], most: int, expected: list[int | str | None]) -> None:
    model = to_onnx(load(NETS / name), inputs=inputs)
    assert len([*node_types(model.graph)]) <= most
    known = [dim if wanted is not None else None for dim, wanted in zip(dims(model), expected, strict=True)]
    assert known == expected
    values = dict(np.load(NETS / name / "expected.npz"))
    outputs = run(model, {name: values.pop(name) for name in inputs})
    assert len(outputs) == len(values)
    for index, output in enumerate(outputs):
        np.testing.assert_allclose(output, values[f"out{index}"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "kinds"), [("both_directions", ["LSTM", "GRU"]), ("classifier", ["LSTM", "LSTM"])])
def test_both_directions_are_one_operator(name: str, kinds: list[str]) -> None:
    model = to_onnx(load(NETS / name))
    found = [node for node in model.graph.node if node.op_type in ("LSTM", "GRU")]
    assert [node.op_type for node in found] == kinds
    for node in found:
        assert {each.name: each.s for each in node.attribute}["direction"] == b"bidirectional"

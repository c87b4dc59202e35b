"""Scores of attention over large encoder outputs are computed in blocks of rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from support.paths import MODELS

from caffe2_backend import to_netdef
from caffe2_backend.runtime.sessions.session import Session
from caffe2_bridge import load
from caffe2_frontend import to_onnx
from caffe2_frontend.recurrent.body_passes import block_products

NAMES: Final = ("attention_regular", "attention_recurrent")
DIMS: Final = {
    "encoder_outputs": ["S", "N", 4],
    "encoder_lengths": ["N"],
    "decoder_inputs": ["T", "N", 3],
    "decoder_lengths": ["N"],
    "h0": [1, "N", 5],
    "c0": [1, "N", 5],
    "ctx0": [1, "N", 4],
}
LARGE: Final = {"S": 19, "N": 3, "T": 8}


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that the recorded nets, whose scores are of four elements, reach."""
    monkeypatch.setattr(block_products, "MIN_WIDTH", 4)
    monkeypatch.setattr(block_products, "MIN_ELEMENTS", 19 * 3 * 4)


def export(name: str, sizes: Mapping[str, int] = {}, form: Any = "scan") -> onnx.ModelProto:
    inputs = {
        blob: ("int32" if blob.endswith("lengths") else "float32", [sizes.get(str(dim), dim) for dim in dims])
        for blob, dims in DIMS.items()
    }
    return to_onnx(load(MODELS / name), inputs=inputs, recurrent=form)


def run(model: onnx.ModelProto, sizes: Mapping[str, int]) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    feed = {}
    for blob, dims in DIMS.items():
        shape = [sizes.get(str(dim), dim) for dim in dims]
        lengths = generator.integers(1, sizes["T"] + 1, shape).astype(np.int32)
        values = generator.standard_normal(shape).astype(np.float32)
        feed[blob] = lengths if blob.endswith("lengths") else values
    return Session(model.SerializeToString(), threads=1).run(feed)


def body_of(model: onnx.ModelProto) -> ir.Graph:
    """Return the body of the only loop."""
    (loop,) = (node for node in ir.from_proto(model).graph.all_nodes() if node.op_type in ("Scan", "Loop"))
    return loop.attributes["body"].as_graph()


def kinds(graph: ir.Graph) -> list[str]:
    return [node.op_type for node in graph]


@pytest.mark.parametrize("form", ["scan", "loop"])
@pytest.mark.parametrize("name", NAMES)
def test_blocks_are_chosen_at_run_time(name: str, form: Any) -> None:
    (choice,) = (node for node in body_of(export(name, form=form)) if node.op_type == "If")
    blocks, whole = (choice.attributes[side].as_graph() for side in ("then_branch", "else_branch"))
    for kind in ("Add", "Tanh", "Gemm"):
        assert kinds(blocks).count(kind) == 8
        assert kinds(whole).count(kind) == 1


@pytest.mark.parametrize("form", ["scan", "loop"])
@pytest.mark.parametrize("name", NAMES)
def test_blocks_are_right(name: str, form: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    in_blocks = export(name, form=form)
    monkeypatch.setattr(block_products, "MIN_WIDTH", 5)
    whole = export(name, form=form)
    for changed in ({}, {"S": 16}, {"S": 8, "N": 8}, {"S": 7, "N": 9}, {"T": 7}, {"N": 0}):
        sizes = LARGE | changed
        expected = run(whole, sizes)
        for blob, value in run(in_blocks, sizes).items():
            np.testing.assert_allclose(value, expected[blob], rtol=1e-5, atol=1e-6, err_msg=f"{blob} {sizes}")


@pytest.mark.parametrize("name", NAMES)
def test_known_sizes_choose_at_conversion(name: str) -> None:
    large, small = export(name, LARGE), export(name, LARGE | {"S": 18})
    for model, tanhs in ((large, 10), (small, 3)):  # two of the LSTM
        body = kinds(body_of(model))
        assert "If" not in body
        assert body.count("Tanh") == tanhs
    expected = run(export(name), LARGE)
    for blob, value in run(large, LARGE).items():
        np.testing.assert_allclose(value, expected[blob], rtol=1e-5, atol=1e-6, err_msg=blob)


def test_the_operator_is_restored() -> None:
    types = [op.type for op in to_netdef(export("attention_regular")).predict_net.op]
    assert "RecurrentNetwork" in types

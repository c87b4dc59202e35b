"""The steps of attention: products with one column, and constants that are broadcast to logits."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from conformance.recording import operator
from support import cells
from support.cells import Recurrent
from support.netdef_interpreter import run_net
from support.paths import MODELS

from caffe2_backend.runtime.sessions.session import Session
from caffe2_bridge import load
from caffe2_frontend import to_onnx

LOOPS = ("Scan", "Loop")


def body_of(model: onnx.ModelProto) -> ir.Graph:
    """Return the body of the only loop."""
    (loop,) = (node for node in ir.from_proto(model).graph.all_nodes() if node.op_type in LOOPS)
    return loop.attributes["body"].as_graph()


def scores_cell() -> Recurrent:
    """Return a cell whose next state is computed from a product with one column."""
    shapes = {"w": (cells.WIDTH, cells.FEATURES), "w_b": (cells.WIDTH,), "v": (1, cells.WIDTH), "v_b": (1,)}
    made = cells.weights({**shapes, "scale": (1,), "u": (cells.WIDTH, 1), "u_b": (cells.WIDTH,)})
    steps = [
        cells.fc("x_t", "w", "from_x"),
        operator("Sum", ["h", "from_x"], ["sum"]),
        cells.fc("sum", "v", "score"),
        operator("Mul", ["score", "scale"], ["scaled"], broadcast=1),
        cells.fc("scaled", "u", "spread"),
        operator("Tanh", ["spread"], ["next"]),
    ]
    return Recurrent(steps, {"h": "next"}, made, lengths=False)


@pytest.mark.parametrize("form", ["scan", "loop"])
@pytest.mark.parametrize("name", ["attention_regular", "attention_recurrent"])
def test_the_scores_are_a_row_times_transposed_rows(name: str, form: Any) -> None:
    body = body_of(to_onnx(load(MODELS / name), recurrent=form))
    (scores,) = (node for node in body if node.op_type == "Gemm")
    left = scores.inputs[0]
    assert left is not None
    assert left.shape is not None
    assert left.shape[0] == 1
    assert left.producer() is None  # a weight
    assert scores.attributes.get_int("transB", 0) == 1


@pytest.mark.parametrize("form", ["scan", "loop"])
@pytest.mark.parametrize("name", ["attention_regular", "attention_recurrent"])
def test_constants_have_the_rank_of_the_logits(name: str, form: Any) -> None:
    body = body_of(to_onnx(load(MODELS / name), recurrent=form))
    masks = [node for node in body if node.op_type == "Where" and node.inputs[1].const_value is not None]  # type: ignore[union-attr] # it has an operand
    assert masks
    assert all(len(node.inputs[1].shape) == 3 for node in masks)  # type: ignore[union-attr, arg-type] # a constant


def session_of(cell: Recurrent, form: Any) -> Session:
    specs = {"x": ("float32", ["T", "N", cells.FEATURES])}
    return Session(to_onnx(cell.net(), cell.init(), inputs=specs, recurrent=form).SerializeToString(), threads=1)


@pytest.mark.parametrize("form", ["scan", "loop"])
def test_products_with_one_column_are_right(form: Any) -> None:
    cell = scores_cell()
    inputs = cells.feed(cell, 4, 3)
    wanted = run_net(cell.net(), {**cell.weights, **inputs})
    for name, value in session_of(cell, form).run(inputs).items():
        np.testing.assert_allclose(value, wanted[name], rtol=1e-4, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("form", ["scan", "loop"])
def test_a_batch_may_be_empty(form: Any) -> None:
    cell = scores_cell()
    results = session_of(cell, form).run(cells.feed(cell, 4, 0))
    assert {name: value.shape for name, value in results.items()} == {"h_all": (4, 0, 3), "h_last": (1, 0, 3)}


@pytest.mark.parametrize("form", ["scan", "loop"])
def test_the_mask_of_the_encoder_leaves_the_loop(form: Any) -> None:
    """The scores have the sizes of the encoder's outputs, as the sum with ``broadcast=1`` has its first operand's."""
    body = body_of(to_onnx(load(MODELS / "attention_regular"), recurrent=form))
    kinds = [node.op_type for node in body]
    assert not {"GreaterOrEqual", "Slice", "Cast"} & set(kinds)
    assert kinds.count("Concat") == 1  # of the hidden state and the context
    assert kinds.count("Shape") == 1  # of the softmax

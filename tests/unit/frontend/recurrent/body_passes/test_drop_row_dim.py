"""Bodies of loops whose states have no leading dim of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from conformance.recording import operator
from support import cells
from support.cells import Array, Recurrent
from support.paths import MODELS

from caffe2_backend.runtime.sessions.session import Session
from caffe2_bridge import load
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef
from caffe2_frontend import to_onnx

LOOPS: Final = ("Scan", "Loop")
FORMS: Final = ("scan", "loop")
MATRIX, ROW = 2, 3


def body_of(model: onnx.ModelProto) -> ir.Graph:
    """The body of the only loop."""
    (loop,) = (node for node in ir.from_proto(model).graph.all_nodes() if node.op_type in LOOPS)
    return loop.attributes["body"].as_graph()


def ranks_of_inputs(body: ir.Graph) -> set[int]:
    """The ranks of the states and rows that a body reads."""
    return {len(value.shape or ()) for value in body.inputs}


def softmax(x: Array) -> Array:
    powers = np.exp(x)
    return powers / powers.sum(axis=2, keepdims=True)


@dataclass(frozen=True)
class Part:
    """What a step computes of the state ``h`` [1, N, D] before the product, in Caffe2 and in numpy."""

    operators: Sequence[OperatorDef]
    compute: Callable[[Array], Array]
    rank: int  # of the state in the body
    weights: Mapping[str, Array] = field(default_factory=dict)


SCALE: Final = np.array([0.5, -1, 2], np.float32)
TABLE: Final = np.arange(12, dtype=np.float32).reshape(4, 1, 3) / 8 - 0.5
PARTS: Final = {
    "split": Part(
        [
            operator("Split", ["h"], ["a", "b", "c"], axis=2),
            operator("Concat", ["b", "c", "a"], ["m", "sizes"], axis=2),
        ],
        lambda h: np.roll(h, -1, axis=2),
        MATRIX,
    ),
    "split_from_the_end": Part(
        [
            operator("Split", ["h"], ["a", "b", "c"], axis=-1),
            operator("Concat", ["b", "c", "a"], ["m", "sizes"], axis=-1),
        ],
        lambda h: np.roll(h, -1, axis=2),
        MATRIX,
    ),
    "broadcast": Part(
        [operator("Mul", ["h", "scale"], ["m"], broadcast=1)], lambda h: h * SCALE, MATRIX, {"scale": SCALE}
    ),
    "operand_of_more_rows": Part(
        [operator("Add", ["h", "table"], ["t"]), operator("ReduceMax", ["t"], ["m"], axes=[0], keepdims=1)],
        lambda h: (h + TABLE).max(axis=0, keepdims=True),
        MATRIX,
        {"table": TABLE},
    ),
    "concat_of_rows": Part(
        [
            operator("Concat", ["h", "h"], ["t", "sizes"], axis=0),
            operator("ReduceMax", ["t"], ["m"], axes=[0], keepdims=1),
        ],
        lambda h: h,
        ROW,
    ),
    "softmax": Part([operator("Softmax", ["h"], ["m"], axis=2)], softmax, MATRIX),
    "transposed": Part(
        [
            operator("Transpose", ["h"], ["t"], axes=[0, 2, 1]),
            operator("Tanh", ["t"], ["u_t"]),
            operator("Transpose", ["u_t"], ["m"], axes=[0, 2, 1]),
        ],
        np.tanh,
        ROW,
    ),
}
MADE: Final = cells.weights({"w": (3, 5), "w_b": (3,), "u": (3, 3), "u_b": (3,)})


def cell_of(part: Part) -> Recurrent:
    """A cell whose next state is computed from a part of the state before and the row of the input."""
    steps = [
        cells.fc("x_t", "w", "from_x"),
        *part.operators,
        cells.fc("m", "u", "from_h"),
        operator("Sum", ["from_h", "from_x"], ["sum"]),
        operator("Tanh", ["sum"], ["next"]),
    ]
    return Recurrent(steps, {"h": "next"}, {**MADE, **part.weights}, lengths=False)


def states(part: Part, x: Array, first: Array) -> Array:
    """The states after all steps, [T, N, D]."""
    rows, h = [], first.reshape(1, -1, first.shape[-1])
    for row in x:
        h = np.tanh(part.compute(h) @ MADE["u"].T + MADE["u_b"] + row[None] @ MADE["w"].T + MADE["w_b"])
        rows.append(h[0])
    return np.stack(rows)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", PARTS)
def test_states_are_matrices_unless_a_node_needs_their_row(name: str, form: Any) -> None:
    part = PARTS[name]
    cell = cell_of(part)
    specs = {"x": ("float32", ["T", "N", cells.FEATURES])}
    model = to_onnx(cell.net(), cell.init(), inputs=specs, recurrent=form)
    assert max(ranks_of_inputs(body_of(model))) == part.rank
    session = Session(model.SerializeToString(), threads=1)
    for steps, batch in ((1, 1), (4, 3), (3, 1)):
        inputs = cells.feed(cell, steps, batch)
        results = session.run(inputs)
        wanted = states(part, inputs["x"], inputs["h_0"])
        np.testing.assert_allclose(results["h_all"], wanted, rtol=1e-4, atol=2e-6)
        np.testing.assert_allclose(results["h_last"], wanted[-1:], rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["layer_norm_lstm", "milstm", "layer_norm_milstm", "basic_rnn_tanh"])
def test_bodies_of_recorded_cells_copy_no_row(name: str, form: Any) -> None:
    body = body_of(to_onnx(load(MODELS / name), recurrent=form))
    assert max(ranks_of_inputs(body)) == MATRIX
    assert not any(node.op_type in ("Squeeze", "Unsqueeze") for node in body)


@pytest.mark.parametrize("form", FORMS)
def test_one_view_of_the_context_of_attention_serves_state_and_result(form: Any) -> None:
    body = body_of(to_onnx(load(MODELS / "attention_regular"), recurrent=form))
    assert sum(node.op_type == "Squeeze" for node in body) == 1

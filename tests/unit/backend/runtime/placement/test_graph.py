"""Where onnxruntime runs nodes on a GPU, and what it copies: each rule of its CUDA provider by a small graph.

``scripts/gpu --emulated-cuda`` compares all recorded operators and golden models with the provider itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
import pytest
from conformance.corpus import find_cases, read_case
from support.paths import CHAR_RNN, MODELS

from caffe2_backend.runtime.placement.graph import GraphPlacement, place_by_provider, place_graph
from caffe2_backend.runtime.sessions.assignment import Assignment
from caffe2_bridge import load
from caffe2_bridge.model import Model
from caffe2_frontend import to_onnx

CONSTANTS = "int64 zero = {0}, int64 one = {1}, int64[1] axis = {0}, int64[1] many = {9}"


def placed(nodes: str, inputs: str = "float[N] x, int64 n", outputs: str = "y") -> GraphPlacement:
    text = f'<ir_version: 10, opset_import: ["" : 20]> g ({inputs}) => (float[A] {outputs}) <{CONSTANTS}> {{ {nodes} }}'
    model = ir.from_onnx_text(text)
    for node in model.graph.all_nodes():
        node.name = node.name or str(node.outputs[0].name)
    return place_graph(model)


@pytest.mark.parametrize(
    ("nodes", "host", "copies"),
    [
        pytest.param("s = Shape (x) t = Add (s, many) y = Expand (x, t)", ["t"], [], id="computed from a shape"),
        pytest.param("s = Shape (x) t = Add (s, n) y = Expand (x, t)", ["t"], [], id="and an input"),
        pytest.param("m = Neg (n) s = Shape (x) t = Add (s, m) y = Expand (x, t)", [], ["s", "t"], id="or of the GPU"),
        pytest.param("s = Shape (x) u = Squeeze (s) y = Range (zero, u, one)", ["u"], [], id="read on the host"),
        pytest.param("u = Neg (n) y = Range (zero, u, one)", [], ["u"], id="made on the GPU, read on the host"),
        pytest.param("v = Neg (n) y = Range (v, n, one)", [], ["n", "v"], id="an input that both sides read"),
        pytest.param("u = Unique (x) v = Shape (u) y = Expand (x, v)", ["u"], ["u", "x"], id="without a kernel"),
        pytest.param("u = Unique (x) y = Neg (u)", ["u"], ["u"], id="what follows it runs on the GPU"),
    ],
)  # fmt: skip
def test_nodes_and_copies(nodes: str, host: Sequence[str], copies: Sequence[str]) -> None:
    found = placed(nodes)

    assert (found.host_nodes, found.copies) == (host, copies)


def test_a_body_copies_what_both_sides_read_of_the_values_around_it() -> None:
    then = "then_branch = a () => (float[A] p) { s = Neg (n) q = Range (s, n, one) p = Cast <to = 1> (q) }"
    other = "else_branch = b () => (float[A] o) { o = Neg (x) }"

    found = placed(f"y = If (c) <{then}, {other}>", "float[N] x, int64 n, bool c")

    assert found.copies == ["n", "s"]


@pytest.mark.parametrize("name", ["char_rnn", "gru_linear_before_reset", "basic_rnn_tanh"])
@pytest.mark.parametrize("sized", [False, True])
def test_the_form_for_gpus_makes_no_copy_for_lengths(name: str, *, sized: bool) -> None:
    if name == "char_rnn":
        model, shapes = load(CHAR_RNN), {
            "input_blob": ("float32", [20, 2, 94]), "seq_lengths": ("int32", [2]),
            "hidden_init": ("float32", [1, 2, 192]), "cell_init": ("float32", [1, 2, 192]),
        }  # fmt: skip
    else:
        case = read_case(find_cases(MODELS / name)[0])
        model = Model.of(case.net, case.init_net)
        shapes = {blob: (str(value.dtype), list(value.shape)) for blob, value in case.inputs.items()}
    inputs = {blob: (dtype, shape if sized else [None] * len(shape)) for blob, (dtype, shape) in shapes.items()}

    fused, plain = (
        place_graph(ir.from_proto(to_onnx(model, inputs=inputs, recurrent=form))) for form in ("gpu", "fused")
    )

    assert (fused.reasons, fused.copies) == ({}, [])
    assert plain.copies


def test_with_webgpu_the_provider_decides() -> None:
    """A node on the host keeps its operator there, but for one that computes from shapes."""
    operators = ("s = Shape (x)", "t = Add (s, many)", "e = Expand (x, t)", "m = Neg (n)", "y = Neg (e)")
    model = ir.from_onnx_text(
        f'<ir_version: 10, opset_import: ["" : 20]> g (float[N] x, int64[N] n) => (float[A] y, int64[N] m) '
        f"<{CONSTANTS}> {{ {' '.join(operators)} }}"
    )
    for index, node in enumerate(model.graph):
        node.name = str(node.outputs[0].name)
        node.metadata_props["caffe2.location"] = f"net[{index // 3}] Type"
    next(value for node in model.graph for value in node.outputs if value.name == "m").dtype = ir.DataType.INT64

    found = place_by_provider(model, Assignment(frozenset({"t", "m"}), frozenset({"m"})))

    assert found == GraphPlacement({1: "Neg has no WebGPU kernel for int64"}, ["m"], ["m", "t"])

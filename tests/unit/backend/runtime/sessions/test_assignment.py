"""The verdict of onnxruntime's provider: of the CPU's, all nodes on the host; ``scripts/gpu`` asks those of GPUs."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx_ir as ir

from caffe2_backend.runtime.sessions import assignment
from caffe2_backend.runtime.sessions.assignment import Assignment, assign

BRANCH = """<ir_version: 10, opset_import: ["" : 20]> g (bool c, float[N] x) => (float[N] y) {
[condition] y = If (c) <then_branch = a () => (float[N] p) { [body] p = Relu (x) },
                        else_branch = b () => (float[N] q) { [other] q = Neg (x) }> }"""


def test_nodes_of_bodies_count() -> None:
    model = onnx.parser.parse_model(BRANCH)

    assert assign(model, "cpu") == Assignment(frozenset({"condition", "body", "other"}), frozenset())
    assert assign(ir.from_proto(model), "cpu") == assign(model, "cpu")


def test_copies_are_named_as_the_values(tmp_path: Path) -> None:
    nodes = "a = MemcpyFromHost (x_CPU) b = Neg (a) y = MemcpyToHost (b_WebGpuExecutionProvider) z = Neg (y)"
    text = f'<ir_version: 10, opset_import: ["" : 20]> g (float[N] x_CPU) => (float[N] z) {{ {nodes} }}'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "saved.onnx")

    assert list(assignment._copied(tmp_path / "saved.onnx")) == ["x_CPU", "b"]

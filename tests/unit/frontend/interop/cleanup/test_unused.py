"""Unused and common nodes are removed as onnx_ir removes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import onnx
import onnx_ir as ir
import pytest
from onnx_ir.passes import common

from caffe2_frontend.interop.bodies import bodies
from caffe2_frontend.interop.cleanup.common_nodes import eliminate_common_nodes
from caffe2_frontend.interop.cleanup.unused import remove_unused

HEAD: Final = '<ir_version: 9, opset_import: ["" : 20]>\n'
GRAPHS: Final = {
    "unused": "g (float[N] x) => (float[N] y) <float[1] w = {1.0}, float[1] v = {2.0}> { a = Exp(x) b = Add(a, w) "
    "y = Relu(x) }",
    "optional outputs": "g (float[N, 3, 4] x) => (y) <int64[1] k = {1}> { y, i = MaxPool <kernel_shape = [2]> (x) "
    "a, m = Dropout(y) }",
    "training": "g (float[N, 3] x, float[3] s) => (y) {"
    " y, m, v = BatchNormalization <training_mode = 1> (x, s, s, s, s) }",
    "inference": "g (float[N, 3] x, float[3] s) => (y) { y = BatchNormalization <training_mode = 0> (x, s, s, s, s) }",
    "empty inputs": 'g (float[N, 3] x, float[3] s) => (y) { y = Clip(x, "", "") }',
    "bodies": "g (float[N] x, bool c) => (y) { e = Exp(x) y = If (c) <then_branch = a () => (r) { u = Abs(x) "
    "r = Neg(x) }, else_branch = b () => (r) { r = Relu(e) q, m = Dropout(e) }> }",
    "common": "g (float[N] x) => (y, z) { a = Elu <alpha = 1.5> (x) b = Elu <alpha = 1.5> (x) c = Elu(x) d = Add(a, b) "
    "e = Add(b, a) y = Add(d, e) z = Sub(c, c) }",
    "chain": "g (float[N] x) => (y) { a = Exp(x) b = Exp(x) c = Neg(a) d = Neg(b) y = Mul(c, d) }",
    "common outputs": "g (float[N] x) => (y, z, v) { y = Exp(x) z = Exp(x) a = Neg(x) v = Neg(x) w = Add(a, v) }",
    "random": "g () => (y, z) { y = RandomNormal <shape = [2]> () z = RandomNormal <shape = [2]> () }",
    "constants": "g () => (y) { a = Constant <value = float[2] {1.0, 2.0}> () "
    "b = Constant <value = float[2] {1.0, 2.0}> () "
    "c = Constant <value = float[11] {1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0}> () "
    "d = Constant <value = float[11] {1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0}> () "
    "y = Concat <axis = 0> (a, b, c, d) }",
    "common bodies": "g (float[N] x, bool c) => (y) { a = If (c) <then_branch = a () => (r) { r = Neg(x) }, "
    "else_branch = b () => (r) { r = Relu(x) }> b = If (c) <then_branch = a () => (s) { s = Neg(x) }, "
    "else_branch = b () => (s) { s = Relu(x) }> y = Add(a, b) }",
}  # fmt: skip


def read(name: str) -> ir.Model:
    return ir.from_proto(onnx.parser.parse_model(HEAD + GRAPHS[name]))


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (remove_unused, common.RemoveUnusedNodesPass()),
        (lambda model: eliminate_common_nodes(model.graph), common.CommonSubexpressionEliminationPass()),
    ],
    ids=["unused", "common"],
)
def test_as_onnx_ir(name: str, ours: Callable[[ir.Model], object], theirs: Callable[[ir.Model], object]) -> None:
    one, other = read(name), read(name)
    ours(one)
    theirs(other)
    assert ir.to_proto(one) == ir.to_proto(other)


def test_what_was_replaced_is_returned() -> None:
    model = read("chain")
    nodes = list(model.graph)
    replaced = eliminate_common_nodes(model.graph)
    assert {old.name: new.name for old, new in replaced.items()} == {"b": "a", "d": "c"}
    assert [node.op_type for node in model.graph] == ["Exp", "Neg", "Mul"]
    assert all(node.graph is None for node in nodes if node not in list(model.graph))


def test_bodies_read_what_enclosing_graphs_compute_and_make_their_outputs() -> None:
    text = """g (float[N] x, bool c) => (y) { e = Exp(x) y = If (c) <then_branch = a () => (r) {
        u = Exp(x) v = Neg(u) w = Neg(e) r = Add(v, w) }, else_branch = b () => (s) { s = Exp(x) }> }"""
    model = ir.from_proto(onnx.parser.parse_model(HEAD + text))
    replaced = eliminate_common_nodes(model.graph)
    assert {old.name: new.name for old, new in replaced.items()} == {"u": "e", "w": "v"}
    then, otherwise = bodies(model.graph[1])
    assert [[value.name for value in node.inputs] for node in then] == [["e"], ["v", "v"]]
    assert [node.op_type for node in otherwise] == ["Exp"]

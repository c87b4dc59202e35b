from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from caffe2_frontend.interop.names import Names
from caffe2_frontend.interop.rewriting.node_emitter import add_constant
from caffe2_frontend.interop.rewriting.node_rewriter import InexpressibleError, NodeRewriter


def rewriter(**attributes: object) -> NodeRewriter:
    """Return a Foo of x in a graph, whose first output y is that of the graph, and whose second one z is not read."""
    x = ir.val("x", ir.DataType.FLOAT, [2])
    node = ir.node("Foo", [x], attributes, num_outputs=2, metadata_props={"caffe2.op": "Bar"})
    node.outputs[0].name, node.outputs[1].name = "y", "z"
    ir.Graph([x], [node.outputs[0]], nodes=[node])
    return NodeRewriter(node, Names(["y/Neg"]))


def graph_of(at: NodeRewriter) -> ir.Graph:
    assert at.node.graph is not None
    return at.node.graph


def test_new_nodes_have_names_after_the_output_and_the_metadata_of_the_node() -> None:
    at = rewriter()
    value = at.emit("Neg", at.input(0), alpha=None)
    node = at.nodes[0]
    assert (value.name, node.metadata_props) == ("y/Neg_1", {"caffe2.op": "Bar"})
    assert not node.attributes


def test_nodes_go_before_a_node_that_stays() -> None:
    at = rewriter()
    graph = graph_of(at)
    at.replace_input(0, at.emit("Neg", at.input(0)))
    at.replace_input(2, at.const([1], np.int64))
    at.commit(None)
    assert [node.op_type for node in graph] == ["Neg", "Constant", "Foo"]
    assert [None if value is None else value.name for value in at.node.inputs] == ["y/Neg_1", None, "y/Constant"]
    at.keep_inputs(1)
    assert len(at.node.inputs) == 1


def test_values_replace_those_of_the_first_outputs() -> None:
    at = rewriter()
    graph = graph_of(at)
    value = at.emit_like(at.node.outputs[0], "Neg", at.input(0))
    at.commit([value])
    assert [node.op_type for node in graph] == ["Neg"]
    assert graph.outputs[0].name == "y"


def test_a_value_that_is_not_new_or_that_replaces_two_is_copied() -> None:
    at = rewriter()
    graph = graph_of(at)
    at.commit([at.input(0), at.emit("Neg", at.input(0))])
    assert [node.op_type for node in graph] == ["Neg", "Identity"]
    again = rewriter()
    both, value = graph_of(again), again.emit("Neg", again.input(0))
    again.commit([value, value])
    assert [node.op_type for node in both] == ["Neg", "Identity"]


def test_a_body_holds_what_is_emitted_in_it() -> None:
    at = rewriter()
    body = at.body([], lambda: [at.emit("Neg", at.input(0))], "then")
    assert ([node.op_type for node in body], at.nodes) == (["Neg"], [])


def test_attributes_are_read_by_their_type() -> None:
    at = rewriter(axis=1, mode="linear", alpha=0.5)
    assert (at.pop_integer("axis", 0), at.has("axis"), at.pop_integer("axis", 0)) == (1, False, 0)
    assert (at.pop_text("mode", ""), at.pop_number("alpha", 0.0), at.pop_integers("axes")) == ("linear", 0.5, [])
    at.set_default("axis", 2)
    at.set_default("axis", 3)
    assert at.integer("axis", 0) == 2


def test_what_does_not_fit_is_refused() -> None:
    at = rewriter(axis=1.5, mode="cubic")
    for read, reason in (
        (lambda: at.integer("axis", 0), "attribute 'axis' must be INT, not FLOAT"),
        (lambda: at.drop("mode", "linear"), "its attribute mode is 'cubic'"),
        (lambda: at.input(1), "input 1 is missing"),
        (lambda: at.rank(at.node.outputs[0]), "the rank of operand 'y' is unknown"),
        (lambda: at.dtype(at.node.outputs[0]), "the element type of operand 'y' is unknown"),
    ):
        with pytest.raises(InexpressibleError) as caught:
            read()
        assert caught.value.reason == reason


def test_constants_are_initializers_of_a_graph() -> None:
    graph = ir.Graph([], [], nodes=[])
    value = add_constant(graph, "axes", [1, 2], ir.DataType.INT32)
    assert graph.initializers["axes"] is value
    assert (value.dtype, value.shape, str(value.const_value.name)) == (ir.DataType.INT32, [2], "axes")

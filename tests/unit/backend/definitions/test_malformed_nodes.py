"""Nodes with definitions whose attributes contradict each other: reported with the reason.

Modules: tree_ensemble.
"""

from __future__ import annotations

from typing import Any

import pytest
from onnx import TensorProto, helper  # noqa: TID251 - malformed models, which onnx_ir does not build

from caffe2_backend import to_netdef
from caffe2_bridge import ConversionError

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
OLD: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.5, 0.0, 0.0], "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0], "target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0],
    "target_weights": [1.0, 2.0], "n_targets": 1,
}  # fmt: skip
NEW: dict[str, Any] = {
    "nodes_modes": [0], "nodes_splits": [0.5], "nodes_featureids": [0], "nodes_truenodeids": [0],
    "nodes_falsenodeids": [1], "nodes_trueleafs": [1], "nodes_falseleafs": [1], "leaf_targetids": [0, 0],
    "leaf_weights": [1.0, 2.0], "tree_roots": [0], "n_targets": 1, "aggregate_function": 1,
}  # fmt: skip
KINDS = {"nodes_modes": TensorProto.UINT8, "nodes_splits": FLOAT, "leaf_weights": FLOAT, "membership_values": FLOAT}
GRAMS: dict[str, Any] = {
    "mode": "TF", "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 1, "ngram_counts": [0, 2],
    "ngram_indexes": [0, 1, 2], "pool_int64s": [1, 2, 3, 4],
}  # fmt: skip


def imported(
    op_type: str, attributes: dict[str, Any], version: int = 3, kind: int = FLOAT, width: int | str = 4
) -> None:
    domain = "" if op_type == "TfIdfVectorizer" else "ai.onnx.ml"
    if op_type == "TreeEnsemble":
        attributes = {
            name: helper.make_tensor(name, KINDS[name], [len(held)], held) if name in KINDS else held
            for name, held in attributes.items()
        }
    node = helper.make_node(op_type, ["x"], ["y"], domain=domain, **attributes)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", kind, [2, width])],
        [helper.make_tensor_value_info("y", FLOAT, None)],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", version)]
    to_netdef(helper.make_model(graph, opset_imports=opsets, ir_version=9))


def test_well_formed_nodes() -> None:
    imported("TreeEnsembleRegressor", OLD)
    imported("TreeEnsemble", NEW, 5)
    imported("TfIdfVectorizer", GRAMS, kind=INT64)
    imported("LinearRegressor", {"coefficients": [1.0, 2.0, 3.0, 4.0], "intercepts": [1.0]})


def test_sizes_that_a_definition_needs_are_asked_for() -> None:
    with pytest.raises(ConversionError, match="where sizes of its operands are not known") as raised:
        imported("TfIdfVectorizer", GRAMS, kind=INT64, width="n")
    assert [found.code for found in raised.value.errors] == ["needs-shape"]


@pytest.mark.parametrize(
    ("op_type", "changed", "reason"),
    [
        ("TreeEnsembleRegressor", {"nodes_featureids": [0]}, "'nodes_featureids' must have 3 elements, not 1"),
        ("TreeEnsembleRegressor", {"nodes_modes": ["LEAF"]}, "'nodes_modes' must have 3 elements, not 1"),
        ("TreeEnsembleRegressor", {"nodes_truenodeids": [9, 0, 0]}, "names node 9 of tree 0"),
        ("TreeEnsembleRegressor", {"target_nodeids": [1, 7]}, "names node 7 of tree 0"),
        ("TreeEnsembleRegressor", {"target_ids": [0, 1]}, "'target_ids' must be from 0 to 0, and one is 1"),
        ("TreeEnsembleRegressor", {"n_targets": 1 << 30}, "constant of .* elements has"),
        ("TreeEnsemble", {"nodes_modes": [77]}, "'nodes_modes' must be from 0 to 6, and one is 77"),
        ("TreeEnsemble", {"aggregate_function": 9}, "'aggregate_function' must be from 0 to 3, and one is 9"),
        ("TreeEnsemble", {"nodes_truenodeids": [5]}, "'nodes_truenodeids' must be from 0 to 1, and one is 5"),
        ("TreeEnsemble", {"nodes_trueleafs": [1, 1]}, "'nodes_trueleafs' must have 1 elements, not 2"),
        ("TreeEnsemble", {"leaf_targetids": [0, -1]}, "'leaf_targetids' must be from 0 to 0, and one is -1"),
        ("TreeEnsemble", {"tree_roots": [3]}, "'tree_roots' must be from 0 to 2, and one is 3"),
        ("TreeEnsemble", {"nodes_modes": [6], "membership_values": [1.0]}, "must have 1 sets, not 0"),
        ("TfIdfVectorizer", {"ngram_counts": [0, 9]}, "'ngram_counts' must start n-grams"),
        ("TfIdfVectorizer", {"pool_int64s": [1, 2, 3]}, "'ngram_counts' must start n-grams"),
        ("TfIdfVectorizer", {"ngram_indexes": [0]}, "'ngram_indexes' must have an element for each of 3 n-grams"),
        ("TfIdfVectorizer", {"ngram_indexes": [0, 1, 2, 3]}, "'ngram_indexes' must have 3 elements, not 4"),
        ("TfIdfVectorizer", {"ngram_indexes": [0, 1, -2]}, "'ngram_indexes' must be from 0"),
        ("TfIdfVectorizer", {"ngram_indexes": [0, 1, 1 << 30]}, "constant of .* elements has"),
        ("TfIdfVectorizer", {"weights": [1.0]}, "'weights' must have 3 elements, not 1"),
        ("LinearRegressor", {"coefficients": [1.0] * 7, "targets": 2}, "'coefficients' must have as many elements"),
        ("LinearRegressor", {"coefficients": [1.0] * 8, "targets": 2, "intercepts": [1.0] * 3}, "'intercepts' must"),
    ],
)
def test_malformed_nodes(op_type: str, changed: dict[str, Any], reason: str) -> None:
    made = {"TreeEnsembleRegressor": OLD, "TreeEnsemble": NEW, "TfIdfVectorizer": GRAMS}.get(op_type, {})
    kind = INT64 if op_type == "TfIdfVectorizer" else FLOAT
    attributes = {name: held for name, held in (made | changed).items() if held != []}
    with pytest.raises(ConversionError, match=reason) as raised:
        imported(op_type, attributes, 5 if op_type == "TreeEnsemble" else 3, kind)
    assert raised.value.errors[0].location.op_type == op_type
    assert raised.value.errors[0].code in {"malformed-model", "large-constant"}


def test_an_attribute_of_another_kind() -> None:
    node = helper.make_node("BiasGelu", ["x", "x"], ["y"], domain="com.microsoft")
    rotary = helper.make_node("MultiHeadAttention", ["x", "x", "x"], ["y"], domain="com.microsoft", num_heads=1.5)
    info = helper.make_tensor_value_info("x", FLOAT, [1, 2, 4])
    for made, refused in ((node, False), (rotary, True)):
        graph = helper.make_graph([made], "g", [info], [helper.make_tensor_value_info("y", FLOAT, None)])
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
        whole = helper.make_model(graph, opset_imports=opsets, ir_version=9)
        if refused:
            with pytest.raises(ConversionError, match="'num_heads' must be INT, not FLOAT"):
                to_netdef(whole)


def test_keys_must_be_text() -> None:
    keys = TensorProto(name="k", dims=[2], data_type=TensorProto.STRING, string_data=[b"a", b"\xe2"])
    with pytest.raises(ConversionError, match="'keys_tensor' must be UTF-8 text"):
        imported("LabelEncoder", {"keys_tensor": keys, "values_int64s": [1, 2]}, 4, TensorProto.STRING)

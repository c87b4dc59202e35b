"""Ensembles of decision trees.

All trees are walked at once, from their roots: [rows, trees] nodes become their children, as often as the deepest tree
has levels. Leaves are their own children.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_backend.definitions.definition import Definition
from caffe2_backend.definitions.family import ML, Family
from caffe2_backend.definitions.linear_models import class_labels, labelled, transformed
from caffe2_frontend.interop.operator_base import bounded

family = Family(ML)

FLOAT = ir.DataType.FLOAT
_MODES: Final = {
    "BRANCH_LEQ": ("LessOrEqual", False), "BRANCH_LT": ("Less", False), "BRANCH_GTE": ("GreaterOrEqual", False),
    "BRANCH_GT": ("Greater", False), "BRANCH_EQ": ("Equal", False), "BRANCH_NEQ": ("Equal", True),
}  # fmt: skip
_DEEPEST: Final = 100


@dataclass(frozen=True)
class Forest:
    """The nodes of all trees.

    Attributes:
        roots: the root of each tree.
        modes: the comparison of each node; "LEAF" of a leaf.
        features: the column that each node compares.
        thresholds: what it compares that with.
        children: the next node where the comparison holds, and where it does not.
        tracks_true: whether NaN counts as if the comparison held.
        weights: [nodes, targets], of the leaves.
    """

    roots: np.ndarray
    modes: Sequence[str]
    features: np.ndarray
    thresholds: np.ndarray
    children: tuple[np.ndarray, np.ndarray]
    tracks_true: np.ndarray
    weights: np.ndarray

    @property
    def dtype(self) -> ir.DataType:
        """The element type of thresholds and weights."""
        return ir.DataType.from_numpy(self.weights.dtype)


@family.defines("TreeEnsembleRegressor")
def regressor(define: Definition) -> ir.Value:
    """``TreeEnsembleRegressor(X; nodes_*, target_*, n_targets, aggregate_function, base_values, ...) -> Y``.

    The numbers are floats, or doubles in tensors, with which doubles are computed; the result is float.
    """
    targets = define.required("n_targets")
    if define.text("post_transform", "NONE") != "NONE":  # onnxruntime applies it to several targets only
        define.undefined()
    forest = _forest(define, "target", targets)
    return _with_base(define, forest, scores_of(define, forest, define.text("aggregate_function", "SUM")))


def scores_of(define: Definition, forest: Forest, aggregate: str) -> ir.Value:
    """Return the weights of the leaves that the rows of input 0 reach, [rows, targets], over all trees."""
    found = define("Gather", define.const(forest.weights, forest.dtype), _leaves(define, forest))
    if aggregate in ("MIN", "MAX") and forest.weights.shape[1] == 1:
        return define(f"Reduce{aggregate.title()}", found, define.ints(1), keepdims=0)
    if aggregate not in ("SUM", "AVERAGE"):
        define.undefined()
    total = define("ReduceSum", found, define.ints(1), keepdims=0)
    trees = define.const(float(len(forest.roots)), forest.dtype)
    return total if aggregate == "SUM" else define("Div", total, trees)


@family.defines("TreeEnsembleClassifier")
def classifier(define: Definition) -> tuple[ir.Value, ir.Value]:
    """``TreeEnsembleClassifier(X; nodes_*, class_*, classlabels_*, base_values, post_transform) -> Y, Z``.

    Of two classes the leaves have weights of one only; the score of the other follows from it: 1 - s if no weight is
    negative, else -s. What two classes with weights of both are is not defined.
    """
    labels = class_labels(define, "classlabels_int64s", "classlabels_strings")
    forest = _forest(define, "class", len(labels))
    weighted = sorted(set(define.integers("class_ids")))
    leaves = _leaves(define, forest)
    found = define("Gather", define.const(forest.weights, forest.dtype), leaves)
    scores = define("ReduceSum", found, define.ints(1), keepdims=0)
    transform = define.text("post_transform", "NONE")
    if len(labels) > 2:
        scores = _with_base(define, forest, scores)
        best = define("ArgMax", scores, axis=1, keepdims=0)
        return labelled(define, labels, best), transformed(define, scores, transform)
    base = len(_numbers(define, "base_values"))
    if len(labels) != 2 or len(weighted) != 1 or base > 1 or (base and weighted != [0]):
        define.undefined()
    score = _with_base(define, forest, define("Gather", scores, define.ints(weighted[0]), axis=1))
    return _of_two(define, labels, score, transform)


def _of_two(
    define: Definition, labels: Sequence[int | str], score: ir.Value, transform: str
) -> tuple[ir.Value, ir.Value]:
    """Return the labels and the scores of two classes, from the score of the second."""
    is_positive = _numbers(define, "class_weights").min() >= 0
    bound = define.const(0.5 if is_positive else 0.0, FLOAT)
    best = define.reshape(define.cast(define("Greater", score, bound), ir.DataType.INT64), -1)
    if is_positive:
        both = define("Concat", define("Sub", define.const(1.0, FLOAT), score), score, axis=1)
    else:
        both = define("Concat", define("Neg", score), score, axis=1)
    if transform not in ("NONE", "LOGISTIC") or (is_positive and transform != "NONE"):
        define.undefined()
    return labelled(define, labels, best), transformed(define, both, transform)


def _with_base(define: Definition, forest: Forest, scores: ir.Value) -> ir.Value:
    """Return scores with ``base_values`` added, as float."""
    base = _numbers(define, "base_values")
    made = define("Add", scores, define.const(base, forest.dtype)) if len(base) else scores
    return made if forest.dtype == FLOAT else define.cast(made, FLOAT)


def _numbers(define: Definition, name: str) -> np.ndarray:
    """Return the numbers of an attribute, or, where it is a tensor, of the one that is named as that."""
    tensor = define.tensor(f"{name}_as_tensor")
    return np.array(define.numbers(name), np.float32) if tensor is None else tensor.numpy().reshape(-1)


def _forest(define: Definition, prefix: str, targets: int) -> Forest:
    """Return the nodes of the attributes, in their order; weights are those of ``prefix``."""
    trees, ids = define.integers("nodes_treeids"), define.integers("nodes_nodeids")
    thresholds, leaf_weights = _numbers(define, "nodes_values"), _numbers(define, f"{prefix}_weights")
    if not trees or not len(thresholds) or not len(leaf_weights):
        define.undefined()
    if {thresholds.dtype, leaf_weights.dtype} not in ({np.dtype(np.float32)}, {np.dtype(np.float64)}):
        define.undefined()
    _require_forest(define, prefix, targets)
    index = {key: i for i, key in enumerate(zip(trees, ids, strict=True))}
    modes = define.texts("nodes_modes")
    children = []
    for name in ("nodes_truenodeids", "nodes_falsenodeids"):
        named = zip(trees, define.integers(name), modes, strict=True)
        keys = [(tree, ids[i] if mode == "LEAF" else node) for i, (tree, node, mode) in enumerate(named)]
        _require_nodes(define, name, index, keys)
        children.append(np.array([i if modes[i] == "LEAF" else index[key] for i, key in enumerate(keys)]))
    inner = np.array([mode != "LEAF" for mode in modes])
    reached = np.concatenate([each[inner] for each in children])
    roots = np.setdiff1d(np.arange(len(trees)), reached)
    weights = np.zeros((len(trees), targets), leaf_weights.dtype)
    given = [define.integers(f"{prefix}_{what}") for what in ("treeids", "nodeids", "ids")]
    _require_nodes(define, f"{prefix}_nodeids", index, list(zip(given[0], given[1], strict=True)))
    for tree, node, target, weight in zip(*given, leaf_weights, strict=True):
        weights[index[tree, node], target] += weight
    tracks = np.array(define.integers("nodes_missing_value_tracks_true") or [0] * len(trees), bool)
    features = np.where(inner, define.integers("nodes_featureids"), 0)
    return Forest(roots, modes, features, thresholds, (children[0], children[1]), tracks, weights)


def _require_forest(define: Definition, prefix: str, targets: int) -> None:
    """Refuse a node whose attributes do not have an element for each node of the trees, or for each weight."""
    count = len(define.integers("nodes_treeids"))
    whole = ("nodes_nodeids", "nodes_truenodeids", "nodes_falsenodeids", "nodes_featureids")
    tracks = define.integers("nodes_missing_value_tracks_true")
    define.require_lengths(count, {name: define.integers(name) for name in whole})
    define.require_lengths(
        count, {"nodes_modes": define.texts("nodes_modes"), "nodes_values": _numbers(define, "nodes_values")}
    )
    define.require_lengths(count, {"nodes_missing_value_tracks_true": tracks}, optional=True)
    weights = (f"{prefix}_treeids", f"{prefix}_nodeids", f"{prefix}_ids")
    define.require_lengths(
        len(_numbers(define, f"{prefix}_weights")), {name: define.integers(name) for name in weights}
    )
    define.require_range(f"{prefix}_ids", define.integers(f"{prefix}_ids"), targets)
    bounded(count, targets)


def _require_nodes(
    define: Definition, name: str, known: Collection[tuple[int, int]], keys: Collection[tuple[int, int]]
) -> None:
    """Refuse a node of which an attribute names nodes of trees that it does not have."""
    for tree, node in keys:
        if (tree, node) not in known:
            define.refuse(f"attribute {name!r} names node {node} of tree {tree}, which the trees do not have")


def _depth(forest: Forest) -> int:
    """Return how many comparisons lead to the deepest leaf."""
    nodes, depth = forest.roots, 0
    inner = np.array([mode != "LEAF" for mode in forest.modes])
    while (at := nodes[inner[nodes]]).size and depth <= _DEEPEST:
        nodes, depth = np.unique(np.concatenate([children[at] for children in forest.children])), depth + 1
    return depth


def _leaves(define: Definition, forest: Forest) -> ir.Value:
    """Return the leaf of each tree that each row reaches, [rows, trees]."""
    depth = _depth(forest)
    if depth > _DEEPEST or not set(forest.modes) <= {*_MODES, "LEAF"}:
        define.undefined()
    x = define.cast(define.input(0), forest.dtype)
    rows = define("Shape", x, start=0, end=1)
    shape = define("Concat", rows, define.ints(len(forest.roots)), axis=0)
    nodes = define("Expand", define.const(forest.roots), shape)
    tables = [define.const(table) for table in (forest.features, *forest.children)]
    thresholds = define.const(forest.thresholds, forest.dtype)
    for _ in range(depth):
        feature, where_true, where_false = (define("Gather", table, nodes) for table in tables)
        values = define("GatherElements", x, feature, axis=1)
        holds = _compared(define, forest, nodes, values, define("Gather", thresholds, nodes))
        nodes = define("Where", holds, where_true, where_false)
    return nodes


def _compared(define: Definition, forest: Forest, nodes: ir.Value, values: ir.Value, bounds: ir.Value) -> ir.Value:
    """Whether the comparison of each node holds."""
    made = None
    for mode in sorted(set(forest.modes) - {"LEAF"}):
        op_type, is_negated = _MODES[mode]
        holds = define(op_type, values, bounds)
        holds = define("Not", holds) if is_negated else holds
        if made is None:
            made = holds
            continue
        is_mode = define("Gather", define.const([each == mode for each in forest.modes], ir.DataType.BOOL), nodes)
        made = define("Or", define("And", is_mode, holds), define("And", define("Not", is_mode), made))
    assert made is not None  # a forest of leaves alone has no depth
    if forest.tracks_true.any():
        tracked = define("Gather", define.const(forest.tracks_true, ir.DataType.BOOL), nodes)
        made = define("Or", made, define("And", define("IsNaN", values), tracked))
    return made

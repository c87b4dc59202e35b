"""TreeEnsemble, which has the trees of ``ai.onnx.ml`` since version 5, in terms of :mod:`.trees`."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_backend.definitions.definition import Definition
from caffe2_backend.definitions.family import ML, Family
from caffe2_backend.definitions.trees import Forest, scores_of
from caffe2_frontend.interop.operator_base import bounded

family = Family(ML)

_MODES: Final = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
_AGGREGATES: Final = ("AVERAGE", "SUM", "MIN", "MAX")
_LARGEST: Final = 1 << 31  # columns


@family.defines("TreeEnsemble")
def tree_ensemble(define: Definition) -> ir.Value:
    """``TreeEnsemble(X; nodes_*, leaf_*, tree_roots, n_targets, aggregate_function, post_transform) -> Y``."""
    if define.integer("post_transform", 0):
        define.undefined()
    aggregate = define.integer("aggregate_function", 1)
    define.require_range("aggregate_function", [aggregate], len(_AGGREGATES))
    return scores_of(define, _forest(define), _AGGREGATES[aggregate])


def _forest(define: Definition) -> Forest:
    """Return the inner nodes and, behind them, the leaves."""
    modes, splits, weights = (define.tensor(name) for name in ("nodes_modes", "nodes_splits", "leaf_weights"))
    if (
        modes is None
        or splits is None
        or weights is None
        or splits.dtype not in (ir.DataType.FLOAT, ir.DataType.DOUBLE)
    ):
        define.undefined()
    numbers, thresholds, leaf_weights = (tensor.numpy().reshape(-1) for tensor in (modes, splits, weights))
    define.require_range("nodes_modes", numbers.tolist(), len(_MODES))
    count, leaves = len(numbers), len(leaf_weights)
    children = (_children(define, "true", count, leaves), _children(define, "false", count, leaves))
    targets, features, roots = (define.integers(name) for name in ("leaf_targetids", "nodes_featureids", "tree_roots"))
    tracks = define.integers("nodes_missing_value_tracks_true")
    define.require_lengths(count, {"nodes_splits": thresholds, "nodes_featureids": features})
    define.require_lengths(count, {"nodes_missing_value_tracks_true": tracks}, optional=True)
    define.require_lengths(leaves, {"leaf_targetids": targets})
    define.require_range("leaf_targetids", targets, define.required("n_targets"))
    define.require_range("nodes_featureids", features, _LARGEST)
    define.require_range("tree_roots", roots, count + leaves)
    bounded(count + leaves, define.required("n_targets"))
    own = np.arange(count, count + leaves)
    values = np.zeros((count + leaves, define.required("n_targets")), weights.dtype.numpy())
    values[own, targets] = leaf_weights
    forest = Forest(
        roots=np.array(roots, np.int64),
        modes=[*(_MODES[mode] for mode in numbers.tolist()), *["LEAF"] * leaves],
        features=np.append(np.array(features, np.int64), np.zeros(leaves, np.int64)),
        thresholds=np.append(thresholds, np.zeros(leaves, splits.dtype.numpy())),
        children=(np.append(children[0], own), np.append(children[1], own)),
        tracks_true=np.append(tracks or [0] * count, [0] * leaves) > 0,
        weights=values,
    )
    return _with_equalities(define, forest, define.tensor("membership_values"))


def _children(define: Definition, side: str, count: int, leaves: int) -> np.ndarray:
    """Return the children of all inner nodes on one side: inner nodes, or leaves, which are behind those."""
    ids, flags = (define.integers(f"nodes_{side}{what}") for what in ("nodeids", "leafs"))
    define.require_lengths(count, {f"nodes_{side}nodeids": ids, f"nodes_{side}leafs": flags})
    define.require_range(f"nodes_{side}nodeids", [each for each, leaf in zip(ids, flags, strict=True) if leaf], leaves)
    define.require_range(
        f"nodes_{side}nodeids", [each for each, leaf in zip(ids, flags, strict=True) if not leaf], count
    )
    return np.array(ids, np.int64) + np.where(np.array(flags, bool), count, 0)


def _with_equalities(define: Definition, forest: Forest, members: ir.TensorProtocol | None) -> Forest:
    """Return a forest whose tests for members of a set are chains of nodes that test for equality.

    The sets are separated by NaN, one for each such node in the order of the nodes.
    """
    nodes = [i for i, mode in enumerate(forest.modes) if mode == "BRANCH_MEMBER"]
    if not nodes:
        return forest
    values = np.zeros(0) if members is None else members.numpy().reshape(-1)
    ends = [-1, *np.flatnonzero(np.isnan(values)).tolist()]
    if len(ends) != len(nodes) + 1:
        define.refuse(f"attribute 'membership_values' must have {len(nodes)} sets, not {len(ends) - 1}")
    modes, features, thresholds = list(forest.modes), forest.features.tolist(), forest.thresholds.tolist()
    where_true, where_false = (table.tolist() for table in forest.children)
    tracks, more = forest.tracks_true.tolist(), 0
    for node, start, end in zip(nodes, ends[:-1], ends[1:], strict=True):
        at, otherwise = node, where_false[node]
        modes[node] = "BRANCH_EQ"
        for position, value in enumerate(values[start + 1 : end].tolist()):
            if position:  # a further node, behind all others
                where_false[at] = len(modes)
                at = len(modes)
                modes.append("BRANCH_EQ")
                features.append(features[node])
                thresholds.append(0.0)
                where_true.append(where_true[node])
                where_false.append(otherwise)
                tracks.append(tracks[node])
                more += 1
            thresholds[at] = value
    weights = np.append(forest.weights, np.zeros((more, forest.weights.shape[1]), forest.weights.dtype), 0)
    return Forest(
        forest.roots, modes, np.array(features), np.array(thresholds, forest.thresholds.dtype),
        (np.array(where_true), np.array(where_false)), np.array(tracks), weights,
    )  # fmt: skip

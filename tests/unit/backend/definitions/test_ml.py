"""Trees, linear models and encoders of ``ai.onnx.ml``, as combinations of Caffe2's operators, against onnxruntime.

Modules: linear_models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from conformance.oracle import OracleRun, run_oracle

from caffe2_backend import Predictor, to_netdef
from caffe2_backend.runtime.sessions.onnx_session import OnnxSession
from caffe2_bridge import ConversionError

COLUMNS = 5
LABELLED = {"y": ir.DataType.INT64, "z": ir.DataType.FLOAT}
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT", "BRANCH_GTE", "BRANCH_EQ", "BRANCH_NEQ")


class Forest:
    """Random trees, as the attributes of the operators."""

    def __init__(
        self, prefix: str, targets: Sequence[int], modes: Sequence[str] = MODES[:1], *, positive: bool = False
    ) -> None:
        self.random = np.random.default_rng(0)
        self.prefix, self.targets, self.modes, self.positive = prefix, targets, modes, positive
        self.attributes: dict[str, list[Any]] = {}
        for tree in range(5):
            self.tree, self.count = tree, 0
            self._node(4)

    def _node(self, depth: int) -> int:
        """Add a node with all below it, and return its id."""
        own, is_leaf = self.count, depth == 0 or (depth < 4 and self.random.random() < 0.2)
        self.count += 1
        self._add(
            "nodes", treeids=self.tree, nodeids=own, featureids=int(self.random.integers(COLUMNS)),
            modes="LEAF" if is_leaf else str(self.random.choice(self.modes)),
            values=float(np.round(self.random.normal(), 1)), truenodeids=0, falsenodeids=0,
            missing_value_tracks_true=0 if is_leaf else int(self.random.integers(2)),
        )  # fmt: skip
        row = len(self.attributes["nodes_nodeids"]) - 1
        if is_leaf:
            for target in self.targets:
                weight = self.random.normal()
                self._add(
                    self.prefix, treeids=self.tree, nodeids=own, ids=target,
                    weights=float(abs(weight) / 5 if self.positive else weight),
                )  # fmt: skip
        else:
            self.attributes["nodes_truenodeids"][row] = self._node(depth - 1)
            self.attributes["nodes_falsenodeids"][row] = self._node(depth - 1)
        return own

    def _add(self, prefix: str, **values: Any) -> None:
        for name, value in values.items():
            self.attributes.setdefault(f"{prefix}_{name}", []).append(value)


def table() -> Any:
    """Return rows of which many elements equal thresholds."""
    return np.round(np.random.default_rng(1).normal(size=(40, COLUMNS)), 1).astype(np.float32)


def in_tensors(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return attributes of doubles, which trees have as tensors."""
    return {
        f"{name}_as_tensor" if isinstance(values[0], float) else name: (
            ir.Tensor(np.array(values)) if isinstance(values[0], float) else values
        )
        for name, values in attributes.items()
    }


def with_missing() -> Any:
    x = table()
    x[::7, 2] = np.nan
    return x


def codes() -> Any:
    return np.random.default_rng(2).integers(0, 6, (7, 3))


COEFFICIENTS = np.random.default_rng(3).normal(size=15).tolist()
FLOAT = {"y": ir.DataType.FLOAT}
Case = tuple[str, dict[str, ir.DataType], Any, dict[str, Any]]
CASES: dict[str, Case] = {
    "regressor": (
        "TreeEnsembleRegressor", FLOAT, with_missing(),
        {"n_targets": 2, "base_values": [0.5, 1.0], **Forest("target", [0, 1]).attributes},
    ),
    "regressor of all comparisons": (
        "TreeEnsembleRegressor", FLOAT, table(),
        {"n_targets": 1, "aggregate_function": "AVERAGE", **Forest("target", [0], MODES).attributes},
    ),
    "largest": (
        "TreeEnsembleRegressor", FLOAT, table(),
        {"n_targets": 1, "aggregate_function": "MAX", **Forest("target", [0]).attributes},
    ),
    "regressor of doubles": (
        "TreeEnsembleRegressor", FLOAT, with_missing().astype(np.float64),
        {"n_targets": 2, **in_tensors({"base_values": [0.5, 1.0], **Forest("target", [0, 1]).attributes})},
    ),
    "two classes of doubles": (
        "TreeEnsembleClassifier", LABELLED, table().astype(np.float64),
        {"classlabels_int64s": [0, 1], **in_tensors(Forest("class", [0], positive=True).attributes)},
    ),
    "three classes": (
        "TreeEnsembleClassifier", LABELLED, table(),
        {"classlabels_int64s": [3, 5, 9], "post_transform": "SOFTMAX", **Forest("class", [0, 1, 2]).attributes},
    ),
    "two classes": (
        "TreeEnsembleClassifier", LABELLED, table(),
        {"classlabels_int64s": [0, 1], **Forest("class", [0], positive=True).attributes},
    ),
    "two classes of any sign": (
        "TreeEnsembleClassifier", LABELLED, table(),
        {"classlabels_int64s": [0, 1], "post_transform": "LOGISTIC", "base_values": [0.3],
         **Forest("class", [0]).attributes},
    ),
    "linear regressor": (
        "LinearRegressor", FLOAT, table(), {"coefficients": COEFFICIENTS[:10], "intercepts": [1.0, 2.0], "targets": 2},
    ),
    "linear classifier": (
        "LinearClassifier", LABELLED, table(),
        {"coefficients": COEFFICIENTS, "intercepts": [1.0, 2.0, 0.5], "classlabels_ints": [4, 5, 6],
         "post_transform": "SOFTMAX"},
    ),
    "scaler": ("Scaler", FLOAT, table(), {"offset": [1.0] * COLUMNS, "scale": [2.0, 3.0, 4.0, 5.0, 6.0]}),
    **{f"norm {norm}": ("Normalizer", FLOAT, table(), {"norm": norm}) for norm in ("MAX", "L1", "L2")},
    "imputer": (
        "Imputer", FLOAT, with_missing(),
        {"imputed_value_floats": [1.0, 2.0, 3.0, 4.0, 5.0], "replaced_value_float": float("nan")},
    ),
    "imputer of zeros": ("Imputer", FLOAT, table(), {"imputed_value_floats": [7.0], "replaced_value_float": 0.0}),
    "encoder": (
        "LabelEncoder", {"y": ir.DataType.INT64}, codes(), {"keys_int64s": [1, 2, 3], "values_int64s": [10, 20, 30]},
    ),
    "encoder of floats": (
        "LabelEncoder", FLOAT, codes(),
        {"keys_int64s": [1, 2, 3], "values_floats": [0.5, 0.6, 0.7], "default_float": 9.0},
    ),
    "vectorizer": ("FeatureVectorizer", FLOAT, table(), {"inputdimensions": [COLUMNS]}),
}  # fmt: skip
REFUSED: dict[str, Case] = {
    "weights of both classes": (
        "TreeEnsembleClassifier", LABELLED, table(),
        {"classlabels_int64s": [0, 1], **Forest("class", [0, 1]).attributes},
    ),
    "transformed target": (
        "TreeEnsembleRegressor", FLOAT, table(),
        {"n_targets": 1, "post_transform": "PROBIT", **Forest("target", [0]).attributes},
    ),
}  # fmt: skip


def model_of(case: Case) -> onnx.ModelProto:
    op_type, outputs, x, attributes = case
    kind = ir.TensorType(ir.DataType.from_numpy(x.dtype))
    operand = ir.Value(name="x", type=kind, shape=ir.Shape(["N", *x.shape[1:]]))
    given = ir.convenience.convert_attributes(attributes)
    node = ir.Node("ai.onnx.ml", op_type, [operand], given, num_outputs=len(outputs))
    for value, (name, dtype) in zip(node.outputs, outputs.items(), strict=True):
        value.name, value.dtype = name, dtype
    opsets = {"": 17, "ai.onnx.ml": 3}
    graph = ir.Graph([operand], node.outputs, nodes=[node], opset_imports=opsets, name="g")
    return ir.to_proto(ir.Model(graph, ir_version=8))


def check(expected: Sequence[Any], actual: Sequence[Any]) -> None:
    for wanted, value in zip(expected, actual, strict=True):
        assert (value.dtype, value.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_here(name: str) -> None:
    model, feed = model_of(CASES[name]), {"x": CASES[name][2]}
    expected = OnnxSession(model.SerializeToString(), threads=1).run_values(feed)
    check(expected, list(Predictor(to_netdef(model)).run(feed).values()))


def test_labels_that_are_text() -> None:
    op_type, _, x, attributes = CASES["three classes"]
    named = {**attributes, "classlabels_strings": ["low", "middle", "high"]}
    del named["classlabels_int64s"]
    model = model_of((op_type, {"y": ir.DataType.STRING, "z": ir.DataType.FLOAT}, x, named))
    expected = OnnxSession(model.SerializeToString(), threads=1).run_values({"x": x})
    labels, scores = Predictor(to_netdef(model)).run({"x": x}).values()
    assert labels.astype(str).tolist() == expected[0].astype(str).tolist()
    np.testing.assert_allclose(scores, expected[1], rtol=1e-4)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_defined_is_reported(name: str) -> None:
    with pytest.raises(ConversionError, match="has no conversion to Caffe2 operators"):
        to_netdef(model_of(REFUSED[name]))


@pytest.mark.oracle
def test_in_real_caffe2() -> None:
    models = [model_of(case) for case in CASES.values()]
    nets = [to_netdef(model) for model in models]
    feeds = [{"x": case[2]} for case in CASES.values()]
    runs = [
        OracleRun(net.predict_net, feed, net.init_net, list(net.predict_net.external_output))
        for net, feed in zip(nets, feeds, strict=True)
    ]
    for model, run, feed, result in zip(models, runs, feeds, run_oracle(runs), strict=True):
        assert result.error == ""
        expected = OnnxSession(model.SerializeToString(), threads=1).run_values(feed)
        check(expected, [result.outputs[name] for name in run.outputs or ()])

"""Support vector machines, through their definitions, against onnxruntime.

Modules: support_vectors, class_probabilities.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from conformance.oracle import OracleRun, run_oracle
from onnx import helper  # noqa: TID251 - builds a small graph

from caffe2_backend import Predictor, to_netdef
from caffe2_backend.runtime.sessions.onnx_session import OnnxSession
from caffe2_bridge import ConversionError

COLUMNS = 4
FLOAT, INT64, STRING = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.STRING
RBF = {"kernel_type": "RBF", "kernel_params": [0.5, 0.0, 3.0]}
SIGMOID = {"kernel_type": "SIGMOID", "kernel_params": [0.3, 0.1, 3.0]}


def regressor(**more: Any) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {
        "n_supports": 5, "support_vectors": rng.normal(size=5 * COLUMNS).tolist(), "rho": [0.25],
        "coefficients": rng.normal(size=5).tolist(), **more,
    }  # fmt: skip


def classifier(*counts: int, proba: bool = False, **more: Any) -> dict[str, Any]:
    rng, pairs = np.random.default_rng(1), len(counts) * (len(counts) - 1) // 2
    both = {name: rng.normal(size=pairs).tolist() for name in ("prob_a", "prob_b")} if proba else {}
    return {
        "vectors_per_class": list(counts), "support_vectors": rng.normal(size=sum(counts) * COLUMNS).tolist(),
        "coefficients": rng.normal(size=(len(counts) - 1) * sum(counts)).tolist(),
        "rho": rng.normal(size=pairs).tolist(), "classlabels_ints": [3 * i for i in range(len(counts))], **both, **more,
    }  # fmt: skip


def linear(classes: int, *, rho: int = 1, least: float = -2.0, **more: Any) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    return {
        "coefficients": rng.uniform(least, 2.0, classes * COLUMNS).tolist(), "rho": [0.25] * rho,
        "classlabels_ints": [7 * i + 3 for i in range(classes)], **NO_KERNEL, **more,
    }  # fmt: skip


NO_KERNEL = {"kernel_params": [0.0] * 3}  # which onnxruntime asks for
LINEAR = {"coefficients": [1.0, -2.0, 0.5, 0.25], "rho": [0.25], **NO_KERNEL}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "linear kernel": ("SVMRegressor", regressor(**NO_KERNEL)),
    "rbf": ("SVMRegressor", regressor(**RBF)),
    "polynomial": ("SVMRegressor", regressor(kernel_type="POLY", kernel_params=[0.5, 1.0, 3.0])),
    "sigmoid": ("SVMRegressor", regressor(**SIGMOID)),
    "outliers": ("SVMRegressor", regressor(one_class=1, **RBF)),
    "without vectors": ("SVMRegressor", LINEAR),
    "two classes": ("SVMClassifier", classifier(3, 2, **RBF)),
    "two classes, probabilities": ("SVMClassifier", classifier(3, 2, proba=True, **RBF)),
    "four classes": ("SVMClassifier", classifier(3, 2, 1, 4, **SIGMOID)),
    "four classes, softmax": ("SVMClassifier", classifier(3, 2, 1, 4, post_transform="SOFTMAX", **RBF)),
    "four classes, probabilities": ("SVMClassifier", classifier(3, 2, 1, 4, proba=True, **RBF)),
}
for transform in ("NONE", "LOGISTIC", "SOFTMAX"):
    for classes in (1, 2, 4):
        CASES[f"linear, {classes}, {transform}"] = ("SVMClassifier", linear(classes, post_transform=transform))
CASES |= {
    "linear, positive weights": ("SVMClassifier", linear(2, least=0.0)),
    "linear, a number for each pair": ("SVMClassifier", linear(4, rho=6)),
}
UNDEFINED = {
    "transformed pair": ("SVMClassifier", classifier(3, 2, post_transform="LOGISTIC")),
}
MALFORMED = {
    "'coefficients' must have 5 elements, not 1": regressor(coefficients=[1.0]),
    "'support_vectors' must have as many elements for each of 5": regressor(support_vectors=[1.0] * 7),
    "'kernel_params' must have 3 elements, not 1": regressor(kernel_params=[1.0]),
    "must have elements": regressor(rho=[]),
}


def model_of(op_type: str, attributes: dict[str, Any], *, label: int = INT64) -> onnx.ModelProto:
    names = {"y": FLOAT} if op_type == "SVMRegressor" else {"y": label, "z": FLOAT}
    node = helper.make_node(op_type, ["x"], list(names), domain="ai.onnx.ml")
    for name, value in attributes.items():
        kind = onnx.AttributeProto.FLOATS if value == [] else None
        node.attribute.append(helper.make_attribute(name, value, attr_type=kind))
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", FLOAT, ["N", COLUMNS])],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in names.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def rows() -> dict[str, Any]:
    return {"x": np.random.default_rng(2).normal(size=(30, COLUMNS)).astype(np.float32)}


def check(actual: list[Any], expected: list[Any], what: str) -> None:
    for value, wanted in zip(actual, expected, strict=True):
        assert (value.dtype, value.shape) == (wanted.dtype, wanted.shape), what
        np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-5, err_msg=what)


@pytest.mark.parametrize("name", CASES)
def test_here(name: str) -> None:
    model = model_of(*CASES[name])
    expected = OnnxSession(model.SerializeToString()).run_values(rows())
    check(list(Predictor(to_netdef(model)).run(rows()).values()), expected, name)


def test_labels_that_are_text() -> None:
    attributes = classifier(3, 2, 2, **RBF) | {"classlabels_strings": ["a", "b", "c"]}
    del attributes["classlabels_ints"]
    model = model_of("SVMClassifier", attributes, label=STRING)
    labels, _ = OnnxSession(model.SerializeToString()).run_values(rows())
    assert Predictor(to_netdef(model)).run(rows())["y"].astype(str).tolist() == labels.astype(str).tolist()


@pytest.mark.parametrize("classes", [2, 3])
def test_linear_labels_that_are_text(classes: int) -> None:
    attributes = linear(classes) | {"classlabels_strings": ["a", "b", "c"][:classes]}
    del attributes["classlabels_ints"]
    model = model_of("SVMClassifier", attributes, label=STRING)
    labels, _ = OnnxSession(model.SerializeToString()).run_values(rows())
    assert Predictor(to_netdef(model)).run(rows())["y"].astype(str).tolist() == labels.astype(str).tolist()


@pytest.mark.parametrize("name", UNDEFINED)
def test_what_is_not_defined_is_reported(name: str) -> None:
    with pytest.raises(ConversionError, match="has no conversion to Caffe2 operators"):
        to_netdef(model_of(*UNDEFINED[name]))


@pytest.mark.parametrize("reason", MALFORMED)
def test_attributes_that_do_not_fit_are_reported(reason: str) -> None:
    with pytest.raises(ConversionError, match=reason):
        to_netdef(model_of("SVMRegressor", MALFORMED[reason]))


@pytest.mark.oracle
def test_in_real_caffe2() -> None:
    models = {name: model_of(*case) for name, case in CASES.items()}
    nets = [to_netdef(model) for model in models.values()]
    runs = [OracleRun(net.predict_net, rows(), net.init_net, list(net.predict_net.external_output)) for net in nets]
    for (name, model), run, result in zip(models.items(), runs, run_oracle(runs), strict=True):
        assert result.error == "", name
        expected = OnnxSession(model.SerializeToString()).run_values(rows())
        check([result.outputs[output] for output in run.outputs or ()], expected, name)

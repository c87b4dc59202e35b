"""Operators on strings, in real Caffe2 and in this project's runtime."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from conformance.oracle import OracleRun, run_oracle
from onnx import parser

from caffe2_backend import Predictor, to_netdef
from caffe2_bridge.diagnostics import ConversionError


def texts(*values: Any) -> np.ndarray[Any, Any]:
    return np.array(values, object)


WORDS: Final = texts("monday", "Monday", "", "tuesday")
LABELS: Final = '<keys_strings = ["tuesday", "monday"], values_int64s = [7, 8]>'
STOPWORDS: Final = '<is_case_sensitive = 1, stopwords = ["monday", "tuesday"]>'
Case = tuple[str, str, str, dict[str, Any], Any]
CASES: Final[dict[str, Case]] = {
    "pairs": (
        "string[2,1] x, string[3] y", "string[2,3] z", "z = StringConcat(x, y)",
        {"x": texts(["a"], [""]), "y": texts("b", "", "cd")}, texts(["ab", "a", "acd"], ["b", "", "cd"]),
    ),
    "pairs of any size": (
        "string[N,1] x, string[M] y", "string[N,M] z", "z = StringConcat(x, y)",
        {"x": texts(["a"], [""]), "y": texts("b", "", "cd")}, texts(["ab", "a", "acd"], ["b", "", "cd"]),
    ),
    "labels": (
        "string[N] x", "int64[N] z", f"z = ai.onnx.ml.LabelEncoder{LABELS}(x)", {"x": WORDS},
        np.array([8, -1, -1, 7]),
    ),
    "filtered": (
        "string[N] x", "string[M] z", f"z = StringNormalizer{STOPWORDS}(x)", {"x": WORDS}, texts("Monday", ""),
    ),
    "none left": (
        "string[1,N] x", "string[1,M] z", f"z = StringNormalizer{STOPWORDS}(x)", {"x": texts(["monday", "monday"])},
        texts([""]),
    ),
    "in another order": (
        "string[A,B,C] x", "string[C,A,B] z", "z = Transpose<perm = [2, 0, 1]>(x)",
        {"x": texts("a", "b", "c", "d", "e", "f").reshape(1, 2, 3)},
        texts("a", "b", "c", "d", "e", "f").reshape(1, 2, 3).transpose(2, 0, 1),
    ),
    "rows in reverse": (
        "string[A,B] x, int64[A] n", "string[A,B] z", "z = ReverseSequence<batch_axis = 0, time_axis = 1>(x, n)",
        {"x": texts(["a", "b"], ["c", "d"]), "n": np.array([1, 2])}, texts(["a", "b"], ["d", "c"]),
    ),
    "a known text": (
        "string[N] x", "bool[N] z", 'k = Constant<value_string = "monday">() z = Equal(x, k)', {"x": WORDS},
        np.array([True, False, False, False]),
    ),
}  # fmt: skip
COMPUTED: Final[Case] = (
    "string[N,1] x, string[M] y", "bool[N,M] z", "z = Equal(x, y)",
    {"x": WORDS.reshape(-1, 1), "y": texts("tuesday", "monday")},
    WORDS.reshape(-1, 1) == texts("tuesday", "monday"),
)  # fmt: skip


def imported(inputs: str, outputs: str, body: str) -> Any:
    head = '<ir_version: 10, opset_import: ["": 20, "ai.onnx.ml": 4]>'
    return to_netdef(parser.parse_model(f"{head} g ({inputs}) => ({outputs}) {{ {body} }}"))


def check(case: Case, actual: Any, what: str = "") -> None:
    expected = case[-1]
    if actual.dtype == object:
        actual = np.array([v.decode() if isinstance(v, bytes) else v for v in actual.ravel()], object).reshape(
            actual.shape
        )
    assert (actual.dtype, actual.shape, actual.tolist()) == (expected.dtype, expected.shape, expected.tolist()), what


@pytest.mark.parametrize("name", CASES)
def test_here(name: str) -> None:
    *signature, feed, _ = CASES[name]
    check(CASES[name], Predictor(imported(*signature)).run(feed)["z"])


@pytest.mark.oracle
def test_in_real_caffe2() -> None:
    runs = []
    cases = {**CASES, "computed": COMPUTED}
    for *signature, feed, _ in cases.values():
        made = imported(*signature)
        runs.append(OracleRun(made.predict_net, feed, made.init_net, ["z"]))
    for (name, case), result in zip(cases.items(), run_oracle(runs), strict=True):
        assert result.error == "", name
        check(case, result.outputs["z"], name)


@pytest.mark.parametrize("attributes", ['case_change_action = "UPPER"', 'stopwords = ["a"]'])
def test_case_is_not_changed(attributes: str) -> None:
    with pytest.raises(ConversionError, match=r"Caffe2 has no operator that .* case"):
        imported("string[N] x", "string[M] z", f"z = StringNormalizer<{attributes}>(x)")


@pytest.mark.parametrize(
    "node",
    ["ScatterND(x, i, x)", "Cast<to = 1>(x)", "Tile(x, i)", "Expand(x, i)", "Unique(x)"],
)
def test_what_real_caffe2_does_not_compute_of_strings_is_refused(node: str) -> None:
    with pytest.raises(ConversionError, match="string"):
        imported("string[2] x, int64[1] i", "string z", f"z = {node}")

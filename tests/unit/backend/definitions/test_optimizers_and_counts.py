"""Optimizers and n-grams through their definitions, against ONNX's reference evaluator.

Modules: n_grams, optimizers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator
from support.random_values import RandomValues

from caffe2_backend import Predictor, to_netdef
from caffe2_bridge import ConversionError

TRAINING = "ai.onnx.preview.training"
TWO = "float R, int64 T, float[3] x1, float[2,2] x2, float[3] g1, float[2,2] g2, float[3] a1, float[2,2] a2"
MORE = ", float[3] b1, float[2,2] b2"
OUT = "float[3] y1, float[2,2] y2, float[3] c1, float[2,2] c2"
MOMENTUM = "Momentum <alpha = 0.9, beta = 0.8, norm_coefficient = 0.01, mode ="
ADAM = "Adam <alpha = 0.95, beta = 0.85, norm_coefficient = 0.01, norm_coefficient_post = 0.02>"
OPTIMIZERS = {
    "adagrad": (TWO, OUT, "Adagrad <decay_factor = 0.1, norm_coefficient = 0.01> (R, T, x1, x2, g1, g2, a1, a2)"),
    "momentum": (TWO, OUT, f'{MOMENTUM} "standard"> (R, T, x1, x2, g1, g2, a1, a2)'),
    "nesterov": (TWO, OUT, f'{MOMENTUM} "nesterov"> (R, T, x1, x2, g1, g2, a1, a2)'),
    "adam": (TWO + MORE, f"{OUT}, float[3] d1, float[2,2] d2", f"{ADAM} (R, T, x1, x2, g1, g2, a1, a2, b1, b2)"),
}
WEIGHTS = "weights = [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5]"
COUNTS = {
    "pairs": 'mode = "TF", min_gram_length = 2, max_gram_length = 2, max_skip_count = 0',
    "gaps": 'mode = "TF", min_gram_length = 1, max_gram_length = 2, max_skip_count = 5',
    "weights": f'mode = "TFIDF", min_gram_length = 1, max_gram_length = 2, max_skip_count = 1, {WEIGHTS}',
    "presence": f'mode = "IDF", min_gram_length = 1, max_gram_length = 2, max_skip_count = 1, {WEIGHTS}',
}
POOL = "ngram_counts = [0, 4], ngram_indexes = [0, 1, 2, 3, 4, 5, 6], pool_int64s = [2, 3, 5, 4, 5, 6, 7, 8, 6, 7]"


def check(inputs: str, outputs: str, body: str, feeds: list[dict[str, Any]], domain: str = "") -> None:
    more = f', "{domain}": 1' if domain else ""
    model = parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 17{more}]> g ({inputs}) => ({outputs}) {{ {body} }}'
    )
    predictor, reference = Predictor(to_netdef(model)), ReferenceEvaluator(model)
    for feed in feeds:
        for value, wanted in zip(predictor.run(feed).values(), reference.run(None, feed), strict=True):
            np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps(name: str, random: RandomValues) -> None:
    inputs, outputs, body = OPTIMIZERS[name]
    results = ", ".join(declared.split()[-1] for declared in outputs.split(", "))
    feed: dict[str, Any] = {"R": np.array(0.1, np.float32)}
    for declared in inputs.split(", ")[2:]:
        value = declared.split()[-1]
        made = random.normal(*((3,) if value.endswith("1") else (2, 2)))
        feed[value] = abs(made) if value[0] in "ab" else made
    feeds = [feed | {"T": np.array(step)} for step in (0, 1, 4)]
    check(inputs, outputs, f"{results} = {TRAINING}.{body}", feeds, TRAINING)


@pytest.mark.parametrize("name", COUNTS)
def test_n_grams(name: str) -> None:
    rows = np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]])
    body = f"y = TfIdfVectorizer <{COUNTS[name]}, {POOL}> (x)"
    check("int64[N,6] x", "float[N,7] y", body, [{"x": rows}, {"x": rows[1:]}])


def test_n_grams_of_a_length_that_is_not_known() -> None:
    text = f"g (int64[N] x) => (float[7] y) {{ y = TfIdfVectorizer <{COUNTS['pairs']}, {POOL}> (x) }}"
    with pytest.raises(ConversionError, match="has no conversion"):
        to_netdef(parser.parse_model(f'<ir_version: 10, opset_import: ["": 17]> {text}'))

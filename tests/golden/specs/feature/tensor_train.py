"""Embeddings of a tensor train with cores of different sizes."""

from __future__ import annotations

import numpy as np
from conformance.recording import Spec, case, generator


def train(indices: list[int], lengths: list[int], **args: object) -> Spec:
    counts, columns, ranks = [3, 4, 2], [2, 1, 3], [1, 5, 2, 1]
    random = generator(1)
    cores = {
        f"C{i}": random.standard_normal((counts[i], ranks[i], columns[i], ranks[i + 1]), dtype="float32")
        for i in range(3)
    }
    inputs = {**cores, "I": np.array(indices, "int64"), "L": np.array(lengths, "int32")}
    given = {"factor_i": counts, "factor_j": columns, "ranks": ranks, "emb_size": 6, **args}
    return case("TTSparseLengthsSum", inputs, outputs=["Y", "A", "B", "D"], args=given)


CASES = [
    train([0, 23, 7, 12, 5, 5], [2, 0, 3, 1]),
    train([0, 23, 7, 12, 5, 5], [0, 6]),
    train([], [0, 0]),
]

"""Indices whose keys the net fills itself: loaded or looked up one by one, frozen, and read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from conformance.corpus import Array
from conformance.recording import Spec, net, operator

WORDS = ["<unk>", "a", "b"]
NUMBERS = [5, 7, -1]


def texts(*values: str) -> Array:
    return np.array(values, object)


def index(kind: str, keys: Sequence[str] | Sequence[int], *steps: str, skip: int = 0, **args: int) -> list:
    """Return the operators that fill an index with keys: ``Load`` or ``Get``, and ``Freeze``."""
    fill = {"String": "GivenTensorStringFill", "Long": "GivenTensorInt64Fill", "Int": "GivenTensorIntFill"}[kind]
    made = {
        "Load": operator("IndexLoad", ["index", "keys"], ["index"], skip_first_entry=skip),
        "Get": operator("IndexGet", ["index", "keys"], ["first"]),
        "Freeze": operator("IndexFreeze", ["index"], ["index"]),
    }
    return [
        operator(fill, [], ["keys"], shape=[len(keys)], values=keys),
        operator(f"{kind}IndexCreate", [], ["index"], **args),
        *(made[step] for step in steps),
    ]


def looked_up(
    kind: str, keys: Sequence[str] | Sequence[int], *steps: str, x: Array, skip: int = 0, **args: int
) -> Spec:
    get = operator("IndexGet", ["index", "X"], ["Y"])
    return net([*index(kind, keys, *steps, skip=skip, **args), get], {"X": x})


def told(kind: str, keys: Sequence[str] | Sequence[int], *steps: str, **args: int) -> Spec:
    size, store = operator("IndexSize", ["index"], ["size"]), operator("IndexStore", ["index"], ["stored"])
    return net([*index(kind, keys, *steps, **args), size, store], {})


ASKED = texts("b", "z", "<unk>", "a")
CASES = [
    looked_up("String", WORDS, "Load", "Freeze", x=ASKED),
    looked_up("String", WORDS, "Load", "Freeze", x=ASKED.reshape(2, 2), skip=1),
    looked_up("String", [*WORDS, "a", "c"], "Get", "Freeze", x=texts("c", "a", "")),
    looked_up("String", WORDS, "Load", "Freeze", x=texts()),
    looked_up("Int", NUMBERS, "Load", "Freeze", x=np.array([[7, 0], [-1, 5]], np.int32)),
    looked_up("Long", NUMBERS, "Load", "Freeze", x=np.array([7, 0, 2**40, -1])),
    looked_up("Long", NUMBERS, "Freeze", x=np.array([7, 0])),
    looked_up("Long", NUMBERS, "Freeze", "Load", x=np.array([7, 8])),
    looked_up("Long", NUMBERS, "Get", "Load", "Freeze", x=np.array([[7, 8]]), max_elements=4),
    told("String", WORDS, "Load"),
    told("String", [*WORDS, "a", "c"], "Get"),
    told("Int", NUMBERS, "Load", skip=1, max_elements=2),
    told("Long", NUMBERS),
    # What Caffe2 refuses: too many keys, a key twice, keys of another type.
    told("Long", NUMBERS, "Load", max_elements=2),
    told("Long", NUMBERS, "Get", max_elements=3),
    told("String", ["a", "b", "a"], "Load"),
    told("Long", [], "Load", skip=1),
    looked_up("Long", NUMBERS, "Load", "Freeze", x=np.array([7], np.int32)),
]

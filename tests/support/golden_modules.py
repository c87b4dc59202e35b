"""Golden models as modules of PyTorch, with the inputs that were recorded for them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from conformance.__main__ import GOLDEN
from conformance.corpus import find_cases, read_case

from caffe2_bridge import load

MODELS: Final = GOLDEN / "models"


def golden_module(name: str) -> tuple[Any, list[tuple[Any, ...]]]:
    """Return a golden model, without its cell states of every step, and its recorded inputs of several sizes."""
    import torch

    from caffe2_torch import to_torch

    given = load(MODELS / name)
    outputs = [n for n in to_torch(given).outputs if not ("cell" in n and n.endswith("_all"))]
    made = to_torch(given, outputs=outputs).eval().requires_grad_(False)  # noqa: FBT003 - PyTorch's
    cases = [read_case(ref).inputs for ref in find_cases(MODELS / name)]
    return made, [tuple(torch.from_numpy(np.array(inputs[n])) for n in made.inputs) for inputs in cases]


def assert_same(actual: Any, expected: Any) -> None:
    """Compare the outputs of two computations, a tensor or several."""
    import torch

    as_tuple = [value if isinstance(value, tuple | list) else (value,) for value in (actual, expected)]
    for one, other in zip(*as_tuple, strict=True):
        torch.testing.assert_close(torch.as_tensor(one), other, rtol=1e-4, atol=1e-6)

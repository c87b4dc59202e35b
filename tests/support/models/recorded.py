"""The values that real Caffe2 computed with models, as recorded in their ``cases.npz``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np


def model_values(model: Path, kind: Literal["in", "out"], case: int | None = None) -> dict[str, np.ndarray[Any, Any]]:
    """Return the recorded inputs or outputs of a model, by blob; of one of its cases where it has several."""
    prefix = f"{kind}/" if case is None else f"{case}/{kind}/"
    with np.load(model / "cases.npz") as file:
        return {name.removeprefix(prefix): file[name] for name in file.files if name.startswith(prefix)}


def save_inputs(model: Path, folder: Path) -> Path:
    """Write the recorded inputs of a model to a file of their own and return its path."""
    path = folder / "inputs.npz"
    np.savez(path, **model_values(model, "in"))  # type: ignore[arg-type] # arrays by name
    return path

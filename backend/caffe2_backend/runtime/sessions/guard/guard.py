"""Keep onnxruntime's process alive on operands with which its kernels end it: without elements, of other ranks, or 0.

:mod:`caffe2_frontend.interop.native_limits` has the tables. Dims that are known are checked when a session is made,
those of inputs before each run, and those that are computed by nodes that are added to the model.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from caffe2_backend.runtime.sessions.guard.checks import OPERATORS, InputNeed, checks_of
from caffe2_backend.runtime.sessions.guard.edits import edited
from caffe2_backend.runtime.sessions.guard.outline import outline
from caffe2_bridge.diagnostics import RunError


@dataclass(frozen=True)
class Guard:
    """What a session needs to survive.

    Attributes:
        model: the model to load, which may have additional nodes.
        folder: of its external data, where the model was in a file and is now in memory; else empty.
        inputs: what is checked before each run.
    """

    model: bytes | str
    folder: str = ""
    inputs: tuple[InputNeed, ...] = ()

    @classmethod
    def of(cls, model: bytes | str, *, adds_checks: bool = True) -> Guard:
        """Return the guard of a serialized model, or of one in a file, whose weights are not read.

        Args:
            model: the model.
            adds_checks: whether nodes may be added that check what is computed.

        Raises RunError for a node that ends the process whatever the inputs are.
        """
        found = outline(model, OPERATORS)
        if found is None:
            return cls(model)
        checks = checks_of(found)
        edits = [edit for edit in checks.edits if adds_checks or edit.need is None]
        if not edits:
            return cls(model, inputs=checks.inputs)
        folder = ""
        if isinstance(model, str):
            folder = os.path.dirname(os.path.abspath(model))  # noqa: PTH100, PTH120 - links stay: the folder is the model's
            proto = onnx.load(model, load_external_data=False)  # noqa: TID251 - a file that was admitted
        else:
            proto = onnx.ModelProto.FromString(model)
        return cls(edited(proto, edits), folder, checks.inputs)

    def check(self, feed: Mapping[str, Any]) -> None:
        """Raise RunError for values of inputs that are not what they must be."""
        for each in self.inputs:
            value = feed.get(each.input)
            if value is not None:
                _check(each, value)


def _check(each: InputNeed, value: Any) -> None:
    shape = tuple(value.shape)
    is_bad = bool(each.need.fault(shape))
    if each.need.is_divisor and not is_bad and isinstance(value, np.ndarray):
        is_bad = not value.item() > 0
    if is_bad:
        raise RunError(
            f"input {each.input!r} {each.need.text}, and has the shape {list(shape)}: {each.node} reads it, and "
            "onnxruntime would end the process"
        )

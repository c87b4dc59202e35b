"""The interface of runtimes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import onnx

from caffe2_backend.runtime.values import Array, Int8Tensor
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.model import Model

Value: TypeAlias = Array | Int8Tensor
AnyModel: TypeAlias = Model | onnx.ModelProto
Form = Literal["onnx", "caffe2"]


class Loaded(Protocol):
    """A model in a runtime, ready to run."""

    def run(self, inputs: Mapping[str, Value], outputs: Sequence[str] | None = None) -> dict[str, Value]:
        """Run once.

        Args:
            inputs: values by name; names that are not inputs of the model are ignored.
            outputs: names; None for the model's own outputs. Blobs that are not tensors are left out.

        Raises RunError if the run fails or an input is missing.
        """
        ...


class Runtime(Protocol):
    """Something that runs models of one form.

    Attributes:
        name: as users write it.
        form: ``onnx`` if :meth:`load` takes a ModelProto, ``caffe2`` if it takes a Model.
    """

    name: str
    form: Form

    def missing(self) -> str:
        """Return why the runtime cannot be used; empty if it can."""
        ...

    def versions(self) -> dict[str, str]:
        """Return the versions of its parts, by name."""
        ...

    def load(self, model: AnyModel) -> Loaded:
        """Prepare a model to run. Raises RunError if the runtime refuses it."""
        ...


def onnx_model(model: AnyModel) -> onnx.ModelProto:
    """Return the model as an ONNX model; another form here is our own mistake."""
    assert isinstance(model, onnx.ModelProto)
    return model


def caffe2_model(model: AnyModel) -> Model:
    """Return the model as a Caffe2 model; another form here is our own mistake."""
    assert isinstance(model, Model)
    return model


def output_array(name: str, value: Any) -> Array:
    """Return an output as an array, a sequence stacked. Raises RunError if its arrays have different shapes."""
    try:
        return np.asarray(value)
    except ValueError:
        raise RunError(f"output {name!r} is a sequence of arrays of different shapes, which are not compared") from None

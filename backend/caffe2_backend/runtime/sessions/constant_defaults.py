"""Defaults of inputs that onnxruntime takes for constants: those of models of early versions of ONNX's format."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import onnx
from google.protobuf.message import DecodeError

from caffe2_bridge.wire import Buffer, WireError, split
from caffe2_frontend.interop.input_defaults import SEPARATE_INITIALIZERS, inputs_with_defaults, without_defaults

_GRAPH: Final = onnx.ModelProto.GRAPH_FIELD_NUMBER


@dataclass(frozen=True)
class ConstantDefaults:
    """A serialized model, or the path of one, in which every initializer is an input, as the early format demands.

    onnxruntime 1.32: it folds these initializers and refuses values for them. A session for the model in which those
    that a run gives are plain inputs takes the values, and runs without them stay as fast as they are.
    """

    model: bytes | str = field(repr=False)

    @classmethod
    def of(cls, model: bytes | str) -> ConstantDefaults | None:
        """Return the defaults of a model; None if onnxruntime takes values for its own, or cannot read it."""
        try:
            buffer = Buffer.of_file(model) if isinstance(model, str) else Buffer(model)
            header = onnx.ModelProto.FromString(split(buffer.span(), {_GRAPH})[0])
        except (OSError, WireError, DecodeError):
            return None
        return cls(model) if header.ir_version < SEPARATE_INITIALIZERS else None

    @property
    def folder(self) -> str:
        """Where the model's external data are; empty for a model in memory."""
        return os.path.dirname(os.path.abspath(self.model)) if isinstance(self.model, str) else ""  # noqa: PTH100, PTH120 - links stay: the folder is the model's

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The inputs that have one."""
        return inputs_with_defaults(self._proto())

    def as_inputs(self, names: Collection[str]) -> bytes:
        """Return the model in which these are plain inputs."""
        return without_defaults(self._proto(), names).SerializeToString()

    def _proto(self) -> onnx.ModelProto:
        if isinstance(self.model, str):
            return onnx.load(self.model, load_external_data=False)  # noqa: TID251 - a file that was admitted
        return onnx.ModelProto.FromString(self.model)

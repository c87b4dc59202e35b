"""The model that a command is given: MODEL, and the options that say where its other parts are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any, Final

import click

from caffe2_bridge import Model, load
from caffe2_bridge.files.detect import is_onnx_file
from caffe2_bridge.storage import AnyPath
from caffe2_cli.output.command_line import typed_path

NO_RANDOM_WEIGHTS: Final = "--random-weights is for Caffe2 models: an ONNX model has its weights"


@dataclass(frozen=True)
class ModelSource:
    """Where a model is.

    Attributes:
        path: of a net, a folder, a database, or an .onnx file.
        init: the init net, or a checkpoint; None if it is beside the net.
        databases: the folder of the databases that the init net loads from; None for its own.
        predictor: the name of a predictor in a database.
    """

    path: AnyPath
    init: AnyPath | None = None
    databases: AnyPath | None = None
    predictor: str | None = None

    @cached_property
    def is_onnx(self) -> bool:
        """Whether this is an ONNX model."""
        return is_onnx_file(self.path)

    def load(self) -> Model:
        """Load a Caffe2 model, as :func:`caffe2_bridge.load` does. Raises click.UsageError for an .onnx file."""
        if self.is_onnx:
            raise click.UsageError(
                f"{self.path} is an ONNX model, and MODEL must be a Caffe2 model; "
                f"to make it one: caffe2-bridge import {typed_path(self.path)} -o net"
            )
        return load(self.path, self.init, predictor=self.predictor, databases=self.databases)

    def read(self) -> Model | AnyPath:
        """Load a Caffe2 model, or return the path of an .onnx file.

        Raises click.UsageError if an option is given that an .onnx file has no use for.
        """
        if not self.is_onnx:
            return self.load()
        if self.init is not None or self.databases is not None or self.predictor is not None:
            raise click.UsageError("--init, --databases and --predictor are for Caffe2 models")
        return self.path


def with_source(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command its model as a ModelSource, the argument ``model``."""

    @wraps(command)
    def wrapped(
        *args: Any, model: AnyPath, init: AnyPath | None, databases: AnyPath | None, predictor: str | None, **rest: Any
    ) -> Any:
        return command(*args, model=ModelSource(model, init, databases, predictor), **rest)

    return wrapped

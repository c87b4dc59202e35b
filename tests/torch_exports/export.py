"""PyTorch's two exporters."""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import warnings
from typing import Any, Final, Literal

import onnx
import torch
from torch import nn

from torch_exports.cases import Case

Exporter = Literal["torchscript", "dynamo"]
EXPORTERS: Final[tuple[Exporter, ...]] = ("torchscript", "dynamo")


class ExporterError(Exception):
    """PyTorch's exporter refused a module; the text is its own."""


def build(case: Case) -> nn.Module:
    """Return the module of a case, with the same weights every time."""
    torch.manual_seed(7)
    return case.module().eval()


def export(case: Case, module: nn.Module, exporter: Exporter) -> onnx.ModelProto:
    """Return the ONNX model of a module. Raises ExporterError where PyTorch refuses it."""
    args = case.inputs(*case.sizes[0])
    names = [f"in{i}" for i in range(len(args))]
    with warnings.catch_warnings(), _silence():
        warnings.simplefilter("ignore")
        try:
            if exporter == "torchscript":
                return _torchscript(case, module, args, names)
            return _dynamo(case, module, args, names)
        except Exception as error:
            raise ExporterError(str(error)) from error


def _torchscript(case: Case, module: nn.Module, args: Any, names: list[str]) -> onnx.ModelProto:
    file = io.BytesIO()
    torch.onnx.export(
        module, args, file, dynamo=False, input_names=names, opset_version=case.opset,
        dynamic_axes=dict(zip(names, case.axes, strict=True)),
    )  # fmt: skip
    return onnx.load_from_string(file.getvalue())


def _dynamo(case: Case, module: nn.Module, args: Any, names: list[str]) -> onnx.ModelProto:
    dims = {name: torch.export.Dim(name, min=1, max=1024) for axes in case.axes for name in axes.values()}
    shapes: list[Any] = [{axis: dims[name] for axis, name in axes.items()} for axes in case.axes]
    named = [p for p in inspect.signature(module.forward).parameters.values() if p.kind is not p.VAR_POSITIONAL]
    if len(shapes) > len(named):
        shapes[len(named) :] = [tuple(shapes[len(named) :])]  # what the module takes as *args is one argument here
    program = torch.onnx.export(
        module, args, dynamo=True, input_names=names, opset_version=case.opset, verbose=False,
        dynamic_shapes=tuple(shapes) if any(case.axes) else None,
    )  # fmt: skip
    assert program is not None
    return program.model_proto


@contextlib.contextmanager
def _silence() -> Any:
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(logging.NOTSET)

"""Define ``torch.ops._caffe2``: each call runs one operator in a workspace of its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import torch

from caffe2_backend.runtime.calls.blob_workspace import Workspace
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.netdef.construct import make_argument
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef
from caffe2_compat.torch_ops.schemas import SCHEMAS

_NAMESPACE: Final = "_caffe2"
# PyTorch's name for kernels of all devices, that call none of its other operators.
_ALL_DEVICES: Final = "CompositeExplicitAutograd"
# An operator with a list of outputs has as many as this argument has elements.
_LIST_OF_OUTPUTS: Final = "lengths"


def define_operators() -> Any:
    """Define all operators; they exist as long as the result."""
    make_library: Any = torch.library.Library  # PyTorch gives it no types
    library = make_library(_NAMESPACE, "FRAGMENT")
    for schema in SCHEMAS:
        name = schema.partition("(")[0]
        library.define(schema)
        library.impl(name, _KERNELS.get(name) or partial(_run, name), _ALL_DEVICES)
    return library


def _run(name: str, *given: Any, **named: Any) -> Any:
    """Run an operator on tensors. Raises RunError or ConversionError if it fails."""
    schema = getattr(torch.ops._caffe2, name).default._schema  # noqa: SLF001 - PyTorch's only way to a schema
    values = {argument.name: argument.default_value for argument in schema.arguments}
    values.update(zip(values, given, strict=False))
    values.update(named)
    workspace, op = Workspace(), OperatorDef(type=name)
    for argument, value in values.items():
        if _holds_tensors(value):
            for tensor in [value] if isinstance(value, torch.Tensor) else value:
                op.input.append(f"input_{len(op.input)}")
                workspace.feed(op.input[-1], tensor.detach())
        elif value is not None:
            op.arg.append(make_argument(argument, value))
    is_list = len(schema.returns) == 1 and schema.returns[0].type.kind() == "ListType"
    count = len(values[_LIST_OF_OUTPUTS]) if is_list else len(schema.returns)
    op.output.extend(f"output_{index}" for index in range(count))
    workspace.run_operator_once(op)
    results = [_fetched(workspace, output) for output in op.output]
    return results[0] if count == 1 and not is_list else results if is_list else tuple(results)


def _holds_tensors(value: Any) -> bool:
    is_list = isinstance(value, Sequence) and len(value) > 0
    return isinstance(value[0] if is_list else value, torch.Tensor)


def _fetched(workspace: Workspace, name: str) -> torch.Tensor:
    """Return a result as a tensor; an optional one that the operator did not compute is empty."""
    try:
        value = workspace.fetch(name, on_device=True)
    except RunError:
        return torch.empty(0)
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    result: torch.Tensor = torch.utils.dlpack.from_dlpack(value)
    return result


def _alias(tensor: torch.Tensor, name: str, is_backward: bool = False) -> torch.Tensor:
    """Return a tensor that shares its elements with another one (AliasWithName)."""
    del name, is_backward
    return tensor.view_as(tensor)


def _to_host(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to("cpu", copy=True)


def _to_gpu(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to("cuda", copy=True)


_KERNELS: Final = {"AliasWithName": _alias, "CopyGPUToCPU": _to_host, "CopyCPUToGPU": _to_gpu}

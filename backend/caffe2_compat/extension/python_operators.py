"""Python operators: functions of the program as operators of nets, with gradients."""

from __future__ import annotations

import pickle  # noqa: TID251 - Caffe2's Python pickles builders of functions into the nets that it makes
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import numpy as np

from caffe2_backend.runtime.blobs.blob_store import BlobStore
from caffe2_backend.runtime.calls.blob_workspace import Workspace as BlobWorkspace
from caffe2_backend.runtime.host.family import HostOp
from caffe2_backend.runtime.host.python_operators import install_caller
from caffe2_backend.runtime.values import Array, HostObject, Tensor, to_host
from caffe2_bridge.diagnostics import RunError
from caffe2_compat.extension.values.blobs import Blob
from caffe2_compat.extension.values.tensors import DLPackTensorCPU, TensorCPU
from caffe2_compat.extension.workspaces import Workspace

__all__ = ["register_python_gradient_op", "register_python_op"]

_GRADIENTS: Final = ("PythonGradient", "PythonDLPackGradient")


@dataclass(frozen=True)
class _Function:
    call: Callable[..., Any]
    needs_workspace: bool


_functions: Final[dict[str, _Function]] = {}
_numbers: Final = count()


def register_python_op(function: Callable[..., Any], pass_workspace: bool, token: str) -> str:
    """Register a function, which gets lists of inputs and outputs; return the token that operators name it by."""
    if not token:
        token = f"{getattr(function, '__module__', '')}.{getattr(function, '__name__', type(function).__name__)}"
        token = f"{token}:{next(_numbers)}"
    _functions[token] = _Function(function, pass_workspace)
    return token


def register_python_gradient_op(token: str, function: Callable[..., Any]) -> None:
    """Register the gradient of a registered function. Raises RunError if that is not registered."""
    if token not in _functions:
        raise RunError(f"no Python operator is registered as {token!r}")
    _functions[_gradient_token(token)] = _Function(function, _functions[token].needs_workspace)


def _gradient_token(token: str) -> str:
    return f"{token}_gradient"


class _Operand:
    """The elements of an input or output, which change in a copy until the operator ends."""

    def __init__(self, array: Array, *, copied: bool) -> None:
        self._array = array
        self._copied = copied
        self.changed = False

    def load(self) -> Array:
        """Return the elements themselves."""
        if not self._copied:
            self._array, self._copied = self._array.copy(), True
        self.changed = True
        return self._array

    def store(self, array: Array) -> None:
        """Replace the elements."""
        self._array, self._copied, self.changed = array, True, True

    def torch_tensor(self) -> Any:
        """Return a torch tensor that shares the elements."""
        return _torch_tensor(self.load())


class _InputElements:
    """The elements of an input; those of one that is an output, too, are the output's."""

    def __init__(self, op: HostOp, name: str, value: Tensor) -> None:
        self._op = op
        self._name = name
        self._array = to_host(value)
        self._shared = self._array is not value or op.frame.constants.get(name) is value

    def load(self) -> Array:
        """Return the elements themselves. Nets may have them as constants: the function may change another array."""
        if self._shared:
            self.store(self._array.copy())
        return self._array

    def store(self, array: Array) -> None:
        """Replace the elements."""
        self._array, self._shared = array, False
        self._op.write(self._name, array)

    def torch_tensor(self) -> Any:
        """Return a torch tensor that shares the elements."""
        return _torch_tensor(self.load())


def _torch_tensor(array: Array) -> Any:
    import torch

    return torch.from_numpy(array)


def call_python(op: HostOp) -> None:
    """Run a Python operator: call its function with the tensors in its blobs."""
    function = _function_of(op)
    kind = DLPackTensorCPU if "DLPack" in op.type else TensorCPU
    outputs = [_output(op, name) for name in op.outputs]
    by_name = dict(zip(op.outputs, outputs, strict=True))
    arguments: list[Any] = [
        [_input(op, index, by_name, kind) for index in range(len(op.inputs))],
        [kind(output) for output in outputs],
    ]
    if function.needs_workspace:
        arguments.append(_workspace(op))
    function.call(*arguments)
    for index, output in enumerate(outputs):
        if output.changed:
            op.set(index, output.load())


def _workspace(op: HostOp) -> Workspace:
    if not isinstance(op.frame, BlobStore):
        raise op.error("the workspace of a body cannot be passed to a Python function")
    return Workspace.of(BlobWorkspace.of_store(op.frame))


def _function_of(op: HostOp) -> _Function:
    gradient = op.type in _GRADIENTS
    pickled = op.args.raw("pickled_grad_builder" if gradient else "pickled_builder")
    if pickled is not None and pickled.s:
        if "function" not in op.state:
            op.state["function"] = _built(pickled.s, op)
        built: _Function = op.state["function"]
        return built
    token = op.args.text("token", default="")
    if gradient:
        token = _gradient_token(token)
    if token not in _functions:
        raise op.error(f"no Python function is registered as {token!r} in this process")
    return _functions[token]


def _built(pickled: bytes, op: HostOp) -> _Function:
    """Return the function that a pickled builder with its arguments returns."""
    builder, arguments, options = pickle.loads(pickled)  # noqa: S301 - as Caffe2 does for the programs that need it
    return _Function(builder(*arguments, **options), op.args.flag("pass_workspace", default=False))


def _output(op: HostOp, name: str) -> _Operand:
    value = op.find(name)
    if value is None or isinstance(value, HostObject | bytes):
        operand = _Operand(np.empty(0, np.float32), copied=True)
        operand.changed = True  # Caffe2 makes an empty tensor
        return operand
    return _Operand(to_host(value), copied=False)


def _input(op: HostOp, index: int, outputs: dict[str, _Operand], kind: type[TensorCPU]) -> Any:
    name = op.inputs[index]
    if name in outputs:
        return kind(outputs[name])
    value = op.value(index)
    if isinstance(value, HostObject | bytes):
        blob = Blob()
        blob.workspace.feed(blob.name, value)
        return blob
    return kind(_InputElements(op, name, value))


def install() -> None:
    """Run Python operators of nets with the functions that are registered here."""
    install_caller(call_python)

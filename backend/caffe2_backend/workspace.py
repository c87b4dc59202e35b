"""Caffe2's ``workspace`` module on onnxruntime: the same names, the same meaning.

Replace ``from caffe2.python import workspace`` by ``from caffe2_backend import workspace``. As in Caffe2, functions
work on the current workspace, of which there is one for the whole process, named ``default`` at first. Nets are NetDefs
of this project or of Caffe2, their bytes, or objects with ``Proto()``.
"""
# ruff: noqa: N802 - Caffe2's names

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from google.protobuf.message import Message

from caffe2_backend.runtime.blob_workspace import Net, Workspace
from caffe2_backend.runtime.onnxruntime_library import cuda_devices
from caffe2_backend.runtime.predictor import Predictor as NamedPredictor
from caffe2_backend.runtime.values import Array, Int8Tensor
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.model import Model
from caffe2_bridge.proto.caffe2_pb2 import DeviceOption
from caffe2_frontend import supported_operators

__all__ = [
    "Blobs",
    "CreateBlob",
    "CreateNet",
    "CurrentWorkspace",
    "FeedBlob",
    "FetchBlob",
    "FetchBlobs",
    "FetchInt8Blob",
    "FetchInt8BlobRealVal",
    "GlobalInit",
    "HasBlob",
    "Int8Tensor",
    "Nets",
    "NumCudaDevices",
    "Predictor",
    "RegisteredOperators",
    "ResetBlob",
    "ResetWorkspace",
    "RunNet",
    "RunNetOnce",
    "RunOperatorMultiple",
    "RunOperatorOnce",
    "RunOperatorsOnce",
    "SetDevice",
    "SwitchWorkspace",
    "Workspace",
    "WorkspaceGuard",
    "Workspaces",
    "current",
]  # fmt: skip

_DEFAULT: Final = "default"
_lock = threading.Lock()
_workspaces: dict[str, Workspace] = {_DEFAULT: Workspace()}
_current: list[str] = [_DEFAULT]
_device: list[str | None] = [None]


def current() -> Workspace:
    """The current workspace, for everything that Caffe2's functions do not cover."""
    return _workspaces[_current[0]]


# Workspaces


def CurrentWorkspace() -> str:
    """The name of the current workspace."""
    return _current[0]


def SwitchWorkspace(name: str, create_if_missing: bool = False) -> None:
    """Make another workspace the current one. Raises RunError if it does not exist, unless ``create_if_missing``."""
    with _lock:
        if name not in _workspaces:
            if not create_if_missing:
                raise RunError(f"workspace {name!r} does not exist")
            _workspaces[name] = Workspace(_device[0])
        _current[0] = name


def Workspaces() -> list[str]:
    """The names of all workspaces."""
    with _lock:
        return list(_workspaces)


def ResetWorkspace(root_folder: str | None = None) -> bool:
    """Remove all blobs and nets of the current workspace; ``root_folder`` is ignored, as there are no root folders."""
    del root_folder
    current().reset()
    return True


def SetDevice(device: str | None) -> None:
    """Choose the device of all workspaces and predictors from now on. Caffe2 does not have this function.

    ``cpu`` ignores device options; ``cuda:N`` runs nets without device options there, and others with this GPU in place
    of those that they name. None follows the options of nets, or ignores them on a machine without a GPU: the default.
    Raises RunError if the device is not available.
    """
    with _lock:
        for workspace in _workspaces.values():
            workspace.set_device(device)
        _device[0] = device


@contextmanager
def WorkspaceGuard(workspace_name: str) -> Iterator[None]:
    """Make another workspace the current one within a block."""
    before = CurrentWorkspace()
    SwitchWorkspace(workspace_name, create_if_missing=True)
    try:
        yield
    finally:
        SwitchWorkspace(before)


def GlobalInit(args: Sequence[str] = ()) -> bool:
    """Do nothing: the arguments configure Caffe2's own logging and threads."""
    del args
    return True


# Blobs


def FeedBlob(name: object, arr: Any, device_option: Message | None = None) -> bool:
    """Set a blob to an array, a list, a number, a text, an Int8Tensor or a torch tensor.

    The device option is ignored on a machine without a GPU, as those of nets are.
    """
    option = None if device_option is None else DeviceOption.FromString(device_option.SerializeToString())
    current().feed(str(name), arr, option)
    return True


def FetchBlob(name: object) -> Array | bytes:
    """Copy a blob. Raises TypeError for an Int8 blob, as Caffe2 does; use FetchInt8Blob for these."""
    value = current().fetch(str(name))
    if isinstance(value, Int8Tensor):
        raise TypeError(f"Use FetchInt8Blob to fetch Int8 Blob {name}")
    return value


def FetchBlobs(names: Iterable[object]) -> list[Array | bytes]:
    """Copy several blobs."""
    return [FetchBlob(name) for name in names]


def FetchInt8Blob(name: object) -> Int8Tensor:
    """Copy an Int8 blob: integers, scale and zero point. Raises RunError if the blob is not an Int8 tensor."""
    value = current().fetch(str(name))
    if not isinstance(value, Int8Tensor):
        raise RunError(f"blob {str(name)!r} is not an Int8 tensor")
    return value


def FetchInt8BlobRealVal(name: object) -> Array:
    """The dequantized values of an Int8 blob, float32."""
    blob = FetchInt8Blob(name)
    reals: Array = ((blob.data.astype("float32") - blob.zero_point) * blob.scale).astype("float32")
    return reals


def Blobs() -> list[str]:
    """The names of all blobs."""
    return current().blobs()


def HasBlob(name: object) -> bool:
    """Whether a blob exists."""
    return current().has_blob(str(name))


def CreateBlob(name: object) -> bool:
    """Do nothing: a blob exists once it is written."""
    del name
    return True


def ResetBlob(name: object) -> bool:
    """Remove a blob; return whether it existed."""
    return current().remove_blob(str(name))


# Nets


def CreateNet(net: Net, overwrite: bool = False, input_blobs: Iterable[object] | None = None) -> bool:
    """Prepare a net to be run by name; ``input_blobs`` is ignored, as inputs need not exist yet."""
    del input_blobs
    current().create_net(net, overwrite=overwrite)
    return True


def Nets() -> list[str]:
    """The names of the nets that were created."""
    return current().nets()


def RunNet(name: object, num_iter: int = 1, allow_fail: bool = False) -> bool:
    """Run a net that was created, given by name or as a net, ``num_iter`` times.

    With ``allow_fail``, return False if a run fails, instead of raising RunError.
    """
    try:
        current().run_net(_net_name(name), num_iter)
    except RunError:
        if not allow_fail:
            raise
        return False
    return True


def _net_name(net: object) -> str:
    if isinstance(net, str):
        return net
    if isinstance(net, bytes):
        return net.decode()
    name = getattr(net, "Name", None)
    return str(name() if callable(name) else getattr(net, "name", net))


def RunNetOnce(net: Net) -> bool:
    """Run a net without creating it."""
    current().run_net_once(net)
    return True


def RunOperatorOnce(operator: Message | bytes) -> bool:
    """Run one operator."""
    current().run_operator_once(operator)
    return True


def RunOperatorMultiple(operator: Message | bytes, num_runs: int) -> bool:
    """Run one operator several times."""
    for _ in range(num_runs):
        RunOperatorOnce(operator)
    return True


def RunOperatorsOnce(operators: Iterable[Message | bytes]) -> bool:
    """Run operators in order."""
    for operator in operators:
        RunOperatorOnce(operator)
    return True


def RegisteredOperators() -> list[str]:
    """The operator types that can be run."""
    return sorted(op_type for types in supported_operators().values() for op_type in types)


def NumCudaDevices() -> int:
    """How many CUDA devices onnxruntime can use."""
    return cuda_devices()


class PositionalPredictor:
    """Caffe2's ``Predictor``: a model in a workspace of its own, with inputs and outputs in the net's order.

    Args:
        init_net: the init net, a NetDef or its bytes.
        predict_net: the predict net, the same.
        device: where it runs; None for that of :func:`SetDevice`.

    Raises NetFormatError if a net cannot be read, RunError if the device is not available.
    """

    def __init__(self, init_net: Message | bytes, predict_net: Message | bytes, device: str | None = None) -> None:
        model = Model.of(predict_net, init_net)
        self._predictor = NamedPredictor(model, _device[0] if device is None else device)
        self._inputs = model.inputs

    def run(self, inputs: Sequence[Any] | Mapping[str, Any]) -> list[Any]:
        """Run the model: outputs in the net's order, for inputs by name or in the net's order."""
        named = inputs if isinstance(inputs, Mapping) else dict(zip(self._inputs, inputs, strict=False))
        return list(self._predictor.run(named).values())


Predictor = PositionalPredictor  # Caffe2's name

"""Measure how long each operator of a model takes on onnxruntime."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from caffe2_backend.runtime.calls.blob_workspace import Workspace
from caffe2_backend.runtime.devices.device_names import with_net_device
from caffe2_backend.runtime.sessions.missing_inputs import require_inputs
from caffe2_backend.runtime.values import Int8Tensor, NoBlobError
from caffe2_bridge.control import inner_operators
from caffe2_bridge.devices import BlobProfile, OperatorProfile, Profile
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef


def profile_model(model: Model, inputs: Mapping[str, Any], *, device: str | None = None, runs: int = 10) -> Profile:
    """Run the operators of a model one at a time, each several times in a row, and measure them.

    An operator computes the outputs that the net reads, as in the net's export: a recurrent net may be an LSTM. One
    with bodies is measured as a whole. Without the fusions of the net as a whole, such as of an LSTM with the FC before
    it, times add up to more than that of the net.

    Args:
        model: the model.
        inputs: its inputs, by blob.
        device: where to run, as in :class:`Workspace`; by default ``cpu``.
        runs: how often each operator is measured, at least once; a run before, which converts it, does not count.

    Returns:
        The profile. Raises RunError if ``runs`` is not positive, an input is missing, a name is not one of an input,
        or an operator fails, and ConversionError if one cannot be converted.
    """
    if runs < 1:
        raise RunError(f"runs must be at least 1, not {runs}")
    require_inputs(inputs, model.inputs, model.init.replaceable)
    place = device or "cpu"
    workspace = Workspace.isolated(place)
    workspace.run_net_once(model.init)
    for name, value in inputs.items():
        workspace.feed(name, value)
    net = model.predict_net
    steps = zip(net.op, outputs_read(net, model.outputs), strict=True)
    operators = (
        _measure(workspace, index, with_net_device(op, net), outputs, runs) for index, (op, outputs) in enumerate(steps)
    )
    return Profile(net.name, place, tuple(operators))


def outputs_read(net: NetDef, outputs: Collection[str]) -> list[tuple[str, ...]]:
    """For each operator, those of its outputs that later operators read or the net outputs; all if there are none."""
    found: list[tuple[str, ...]] = []
    live = set(outputs)
    for op in reversed(net.op):
        found.append(tuple(name for name in op.output if name in live) or tuple(op.output))
        live.difference_update(op.output)
        live.update(name for each in (OpView(op, 0), *inner_operators(OpView(op, 0))) for name in each.inputs)
    return found[::-1]


def _measure(workspace: Workspace, index: int, op: OperatorDef, outputs: Collection[str], runs: int) -> OperatorProfile:
    """Run an operator ``runs`` + 1 times on the same inputs: those that it overwrites are fed again."""
    read = tuple(_describe(workspace, op.input))
    net = NetDef(op=[op], external_output=outputs)
    overwritten = {name: value for name in {*op.input} & {*op.output} if (value := _value(workspace, name)) is not None}
    seconds = []
    for _ in range(runs + 1):
        for name, value in overwritten.items():
            workspace.feed(name, value)
        start = time.perf_counter()
        workspace.run_net_once(net)
        seconds.append(time.perf_counter() - start)
    known = {blob.name: blob for blob in _describe(workspace, outputs)}
    written = tuple(known.get(name, BlobProfile(name)) for name in op.output)
    return OperatorProfile(index, op.type, op.name, read, written, tuple(seconds[1:]))


def _describe(workspace: Workspace, names: Iterable[str]) -> Iterable[BlobProfile]:
    for name in names:
        value = _value(workspace, name)
        if value is None:
            yield BlobProfile(name)
        else:
            array = value.data if isinstance(value, Int8Tensor) else np.asarray(value)
            size = sum(map(len, array.reshape(-1))) if array.dtype == object else array.nbytes
            yield BlobProfile(name, array.dtype.name, array.shape, size)


def _value(workspace: Workspace, name: str) -> Any:
    """The value of a blob; None if it is an object, or does not exist."""
    try:
        return workspace.fetch(name)
    except (NoBlobError, RunError):
        return None
